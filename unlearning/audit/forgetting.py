"""Simple forgetting metrics: confidence and entropy on D_u, and progress towards Retrain.

Every metric is interpreted by the gap between the model's value and Retrain's value; a small value
alone does not show forgetting.

Low entropy on D_u means that the model remembers the rows of D_u. Very high entropy is detectable
as well: a model with uniform outputs on D_u passes one-sided membership tests, but the forgotten
rows stand out (Streisand effect). Therefore the Streisand check uses two values: the entropy on D_u
minus Retrain's entropy on D_u, and the AUC of separating D_u from rows that were never used for
training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from torch import Tensor
from torch.nn.functional import log_softmax

from unlearning.audit.intervals import Z, auc_chance_error, further_value_limit
from unlearning.audit.scores import auc
from unlearning.objectives import softmax_entropy


def predicted_confidence(logits: Tensor) -> Tensor:
    """Return the probability of the predicted class of each row, ``[rows]``.

    ``logits`` are ``[rows, classes]``.
    """
    return log_softmax(logits.detach().double(), dim=1).exp().max(dim=1).values


def label_log_odds(logits: Tensor, labels: Tensor) -> Tensor:
    """Return φ, the log-odds of the label of each row, ``[..., rows]``.

    ``logits`` are ``[..., rows, classes]`` and ``labels`` are ``[rows]``. φ is finite even where
    the model is certain, because log(1 − p_y) is computed as a sum over the other classes.
    """
    # LiRA (Carlini et al. 2022, §IV): φ = log p_y − log(1 − p_y).
    exact = logits.detach().double()
    own = labels.expand(logits.shape[:-1]).unsqueeze(-1)
    others = exact.scatter(-1, own, -float("inf")).logsumexp(dim=-1)
    return exact.gather(-1, own).squeeze(-1) - others


def retrain_relative_score(
    unlearned: float, retrain: float, original: float, spread: float
) -> float | None:
    """Return 1 − |m_u − m_R| / |m_o − m_R|: 1 at Retrain's value, 0 at the trained model's value.

    ``unlearned``, ``retrain`` and ``original`` are the values m_u, m_R and m_o of one metric for
    the unlearned model, Retrain and the trained model; ``spread`` is the standard deviation of the
    metric over the Retrain models. The result is None if m_o lies within two standard deviations of
    m_R, because the metric then cannot show forgetting.
    """
    way = abs(original - retrain)
    return 1 - abs(unlearned - retrain) / way if way and way >= 2 * spread else None


@dataclass(frozen=True, slots=True)
class StreisandCheck:
    """Entropy on D_u, compared with Retrain's entropy on D_u and the entropy on unseen rows."""

    mean: float  # nats, on D_u
    gap: float  # in nats: mean − the Retrains' mean on D_u; positive: over-forgotten
    auc: float  # of ``entropy_auc``; well below 0.5 the rows stand out
    flagged: bool


def predictive_entropy(logits: Tensor) -> Tensor:
    """Return the entropy of each row in nats, without a gradient, ``[rows]``.

    ``logits`` are ``[rows, classes]``.
    """
    return softmax_entropy(logits.detach().double())


def entropy_auc(forgotten: Tensor, never_seen: Tensor) -> float:
    """Return the AUC of the attack that classifies rows with low entropy as forgotten.

    ``forgotten`` and ``never_seen`` are logits, ``[rows, classes]``; their numbers of rows may
    differ.
    """
    return auc(-predictive_entropy(forgotten).numpy(), -predictive_entropy(never_seen).numpy())


def streisand_check(
    forgotten: Tensor, never_seen: Tensor, retrains: Sequence[Tensor]
) -> StreisandCheck:
    """Check whether the entropy on D_u is so high that the rows of D_u stand out.

    ``forgotten`` are logits on D_u, and ``never_seen`` are logits on held-out rows with the same
    class mix. ``retrains`` are the logits of each Retrain model on D_u. All logits are
    ``[rows, classes]``. The rows of D_u stand out if their entropy is significantly higher than the
    entropy of unseen rows (AUC < ½ − 1.96 SE). They also stand out if their mean entropy exceeds
    the limit that one further Retrain model would exceed with probability 2.5 %. Each of the two
    conditions holds for 2.5 % of the perfect methods, so at most 5 % of them are flagged.

    Raises:
        ValueError: there are fewer than two Retrain models, so that their standard deviation is
            undefined.
    """
    if len(retrains) < 2:
        raise ValueError(f"a Streisand check needs 2 or more Retrain models (got {len(retrains)})")
    means = [float(predictive_entropy(logits).mean()) for logits in retrains]
    mean, found = float(predictive_entropy(forgotten).mean()), entropy_auc(forgotten, never_seen)
    gap = mean - fmean(means)
    stands_out = found < 0.5 - Z * auc_chance_error(len(forgotten), len(never_seen))
    return StreisandCheck(mean, gap, found, stands_out or mean > further_value_limit(means))
