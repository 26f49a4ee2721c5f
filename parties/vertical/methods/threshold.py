"""FedORA's threshold γ between the parties: by the agreed policy, on rows that it may read."""

from dataclasses import dataclass

from torch import Tensor

from parties.common.errors import PolicyError
from parties.vertical.engine.split_model import Federation
from parties.vertical.engine.train import Plan, learn
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.objectives import forgetting_scores


@dataclass(frozen=True, slots=True)
class Threshold:
    """γ, and the policy that gave it: `heldout` stands in for a reference that diverged.

    With `present` it is the highest that a look at the validation rows may set it to.
    """

    gamma: float
    policy: str


def threshold(federation: Federation, original: Tensor) -> Threshold:
    """γ by the agreed policy; ``original`` are the original model's logits on validation rows.

    Raises:
        PolicyError: the policy needs validation rows of D_u's classes, and there are none.
    """
    plan, classes = federation.agreement.unlearning.fedora, len(federation.agreement.labels.classes)
    if plan.policy == "uniform":
        return Threshold(thresholds.uniform(classes, plan.weight), "uniform")
    if plan.policy == "proxy":
        logits = _reference(federation)
        if not federation.diverged:
            scores = forgetting_scores(logits, plan.weight)
            gamma = thresholds.proxy(scores, classes, plan.weight, plan.entropy_factor)
            return Threshold(gamma, "proxy")
        federation.party.watch.warn("the reference model diverged; the threshold is 'heldout'")
    level = held_out_level(federation, original)
    return Threshold(level, "present" if plan.policy == "present" else "heldout")


def _reference(federation: Federation) -> Tensor:
    """Logits on D_u of a model that learned a fixed part of D_r from scratch."""
    federation.fresh("reference", vfl_pb2.SAMPLE, vfl_pb2.REFERENCE)
    plan = federation.agreement.unlearning.fedora
    how = (plan.reference_epochs, plan.reference_batch)
    learn(federation, Plan("reference", vfl_pb2.REFERENCE, vfl_pb2.SAMPLE, *how))
    return federation.logits(vfl_pb2.FORGOTTEN, vfl_pb2.REFERENCE)


def held_out_level(federation: Federation, logits: Tensor) -> float:
    """γ from a model's ``logits`` on the validation rows, in the class mix of D_u.

    Raises:
        PolicyError: no validation row has a class of D_u.
    """
    rows, labels = federation.rows, federation.labels
    plan, classes = federation.agreement.unlearning.fedora, len(federation.agreement.labels.classes)
    compared = min(len(rows.forgotten), plan.score_rows or len(rows.forgotten))
    scores = forgetting_scores(logits, plan.weight)
    try:
        level = thresholds.class_matched(
            scores, labels[rows.validation], labels[rows.forgotten], compared
        )
    except ValueError as error:
        raise PolicyError(
            "no validation row has a class of D_u", "enlarge split.validation"
        ) from error
    return thresholds.heldout(level, classes, plan.weight, plan.margin)
