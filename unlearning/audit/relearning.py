"""Relearning: how fast a model learns D_u again, and how much forgotten knowledge comes back.

Knowledge that was only suppressed comes back faster than a Retrain learns it (a ratio well below
1); a model that was pushed beyond Retrain takes longer.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

RELEARN_TOLERANCE = 0.05  # of the trained model's accuracy on D_u
MIN_LOST_SHARE = 0.1  # of the trained model's knowledge; a smaller loss gives no useful ratio


def steps_to_relearn(accuracies: Iterable[float], original: float, cap: int) -> int:
    """Return the number of steps until the accuracy on D_u is within 5 % of ``original``.

    ``accuracies`` are those before the first step, after it, and so on; no more of them are read
    than needed. The result is ``cap`` if the accuracy is not reached by then.
    """
    for steps, accuracy in enumerate(accuracies):
        if accuracy >= (1 - RELEARN_TOLERANCE) * original or steps >= cap:
            return steps
    return cap


def anamnesis_index(ours: Sequence[int], retrain: Sequence[int]) -> float | None:
    """Return the AIN: a model's mean number of steps to relearn D_u divided by Retrain's.

    Both hold one number per data order. The result is None if Retrain needs no step: it then
    predicts D_u well enough without having seen it.
    """
    # Chundawat et al., TIFS 2023: AIN = steps of the model / steps of Retrain.
    return fmean(ours) / fmean(retrain) if any(retrain) else None


def recovered_knowledge(before: float, after: float, original: float) -> float | None:
    """Return the share of lost knowledge that came back: (after − before) / (original − before).

    The arguments are one measure of knowledge of a language model (probability, ROUGE-L) before and
    after relearning a part of the forgotten texts, measured on the rest of them, and that of the
    trained model; higher is more knowledge. At 0 nothing came back, at 1 all of it. The result is
    None if less than ``MIN_LOST_SHARE`` of the trained model's knowledge was lost. It must be
    compared with a Retrain that takes the same steps, since it learns too.
    """
    lost = original - before
    return (after - before) / lost if lost > MIN_LOST_SHARE * original else None
