"""Predictive entropy of forgotten rows: too little is remembering, too much is a scar that shows.

A model pushed to uniform outputs on D_u passes one-sided membership tests, yet its forgotten
rows stand out (Streisand); hence a signed gap to Retrain and an AUC against rows never seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from torch import Tensor

from unlearning.audit.intervals import chance_error
from unlearning.audit.scores import auc
from unlearning.objectives import entropy


@dataclass(frozen=True, slots=True)
class Streisand:
    """Where the entropy on D_u stands between Retrain's and that of rows never seen."""

    mean: float  # nats, on D_u
    gap: float  # ΔH in nats: less the Retrains' mean on D_u; positive is over-forgotten
    auc: float  # of "less entropy, so forgotten rather than never seen"; below 0.5 a scar
    flagged: bool


def predictive_entropy(logits: Tensor) -> Tensor:
    """Return entropies in nats, ``[rows]``, detached: what a histogram is drawn from."""
    return entropy(logits.detach().double())


def certainty_auc(forgotten: Tensor, never_seen: Tensor) -> float:
    """Return the AUC of "less entropy, so forgotten rather than never seen", of logits."""
    return auc(-predictive_entropy(forgotten).numpy(), -predictive_entropy(never_seen).numpy())


def streisand(forgotten: Tensor, never_seen: Tensor, retrains: Sequence[Tensor]) -> Streisand:
    """Check for a scar: logits on D_u, on class-matched held-out rows, and of Retrains on D_u.

    Flagged when D_u is less sure than never seen rows beyond chance (AUC < ½ - 2 SE), or less
    sure than at the Retrains by more than two of their standard deviations.

    Raises:
        ValueError: fewer than two Retrains, as their spread is the unit.
    """
    if len(retrains) < 2:
        raise ValueError(f"a Streisand check needs 2 or more Retrains, got {len(retrains)}")
    means = [float(predictive_entropy(each).mean()) for each in retrains]
    mean, found = float(predictive_entropy(forgotten).mean()), certainty_auc(forgotten, never_seen)
    gap = mean - fmean(means)
    scarred = found < 0.5 - 2 * chance_error(len(forgotten), len(never_seen))
    return Streisand(mean, gap, found, scarred or gap > 2 * stdev(means))
