"""FedORA's threshold γ between the parties: by the agreed policy, on rows that it may read."""

from dataclasses import dataclass

import torch
from torch import Tensor

from parties.errors import PolicyError
from parties.federation import Federation
from parties.learn import Plan, learn
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.objectives import forgetting_scores


@dataclass(frozen=True, slots=True)
class Threshold:
    """γ, and the policy that gave it: `heldout` stands in for a reference that diverged."""

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
    scores = _class_matched(federation, original)
    return Threshold(thresholds.heldout(scores, classes, plan.weight), "heldout")


def _reference(federation: Federation) -> Tensor:
    """Logits on D_u of a model that learned a fixed part of D_r from scratch."""
    federation.fresh("reference", vfl_pb2.SAMPLE, vfl_pb2.REFERENCE)
    plan = federation.agreement.unlearning.fedora
    how = (plan.reference_epochs, plan.reference_batch)
    learn(federation, Plan("reference", vfl_pb2.REFERENCE, vfl_pb2.SAMPLE, *how))
    return federation.logits(vfl_pb2.FORGOTTEN, vfl_pb2.REFERENCE)


def _class_matched(federation: Federation, logits: Tensor) -> Tensor:
    """The mean score of validation rows, weighted by the classes of D_u."""
    rows, weight = federation.rows, federation.agreement.unlearning.fedora.weight
    scores, truth = forgetting_scores(logits, weight), federation.labels[rows.validation]
    classes, counts = torch.unique(federation.labels[rows.forgotten], return_counts=True)
    means = torch.stack([scores[truth == label].mean() for label in classes])
    known = ~means.isnan()  # a class without validation rows teaches nothing
    if not known.any():
        raise PolicyError("no validation row has a class of D_u", "enlarge split.validation")
    shares = counts[known] / counts[known].sum()
    return torch.dot(means[known], shares.to(means.dtype))
