"""Relearn time: how fast a model learns D_u again (AIN; Chundawat et al., TIFS 2023).

Knowledge that is still inside comes back faster than at a Retrain (a ratio well below 1); a model
that was pushed beyond Retrain takes longer.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

WITHIN = 0.05  # of the original's accuracy on D_u


def steps_until(accuracies: Iterable[float], original: float, cap: int) -> int:
    """Steps until the accuracy on D_u is within 5 % of the original's; ``cap`` where it never is.

    ``accuracies`` are before the first step, after it, and so on; no more are read than needed.
    """
    for steps, accuracy in enumerate(accuracies):
        if accuracy >= (1 - WITHIN) * original or steps >= cap:
            return steps
    return cap


def anamnesis(ours: Sequence[int], retrain: Sequence[int]) -> float | None:
    """AIN: mean steps of a model over those of Retrain, each over the same data orders.

    None where Retrain needs no step, as it then knows D_u well enough without.
    """
    return fmean(ours) / fmean(retrain) if any(retrain) else None
