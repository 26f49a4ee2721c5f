"""Relearning: how fast a model learns D_u again, and how much forgotten knowledge comes back.

A model that only suppressed its knowledge relearns D_u faster than a Retrain model learns D_u (the
ratio of the numbers of steps is well below 1); a model that over-forgot takes longer than a Retrain
model.
"""

from collections.abc import Iterable, Sequence
from statistics import fmean

RELEARN_TOLERANCE = 0.05  # of the trained model's accuracy on D_u
MIN_LOST_SHARE = 0.1  # of the trained model's knowledge; a smaller loss gives no useful ratio


def steps_to_relearn(accuracies: Iterable[float], original: float, cap: int) -> int:
    """Return the number of steps until the accuracy on D_u is within 5 % of ``original``.

    ``accuracies`` yields the accuracy before the first step, after the first step, and so on, and
    is read only as far as needed. The result is ``cap`` if ``cap`` steps do not reach the accuracy.
    """
    for steps, accuracy in enumerate(accuracies):
        if accuracy >= (1 - RELEARN_TOLERANCE) * original or steps >= cap:
            return steps
    return cap


def anamnesis_index(ours: Sequence[int], retrain: Sequence[int]) -> float | None:
    """Return the anamnesis index (AIN): mean steps to relearn D_u, divided by Retrain's mean steps.

    ``ours`` and ``retrain`` contain the number of steps for each order in which the data was used.
    The result is None if Retrain needs no step, because Retrain then predicts D_u well enough
    without training on D_u.
    """
    # Chundawat et al., TIFS 2023: AIN = steps of the model / steps of Retrain.
    return fmean(ours) / fmean(retrain) if any(retrain) else None


def recovered_knowledge(before: float, after: float, original: float) -> float | None:
    """Return the fraction of lost knowledge that came back: (after − before) / (original − before).

    All arguments are values of one measure of a language model's knowledge, such as probability or
    ROUGE-L; a higher value means more knowledge. ``before`` and ``after`` are the values before and
    after relearning a part of the forgotten texts, measured on the other forgotten texts.
    ``original`` is the value of the trained model on the same texts. At 0 no lost knowledge came
    back, at 1 all of it came back. The result is None if less than ``MIN_LOST_SHARE`` of the
    trained model's knowledge was lost. The fraction must be compared with the fraction of a Retrain
    model after the same training steps, because these steps teach a Retrain model too.
    """
    lost = original - before
    return (after - before) / lost if lost > MIN_LOST_SHARE * original else None
