"""Calibration: scale all logits, so that the predictions have a wanted confidence.

Two models with equal predictions can differ in the scale of their logits only, for example because
one of them was trained for fewer epochs, and this difference alone distinguishes them. The
confidence of a model is the median over rows of the log-odds of the predicted class. A median
depends on a few very certain or very uncertain rows less than a mean of entropies does.
"""

import math

from torch import Tensor

MAX_FACTOR = 2.0  # of FedORA, and at least its inverse: a larger factor hides a broken model
SEARCH = 1000.0  # the largest factor of a search, and the inverse of the smallest one
BISECTIONS = 60


def top_log_odds(logits: Tensor) -> Tensor:
    """Return log p₁ − log(1 − p₁) of each row, ``[..., rows]``; p₁ is the largest probability.

    ``logits`` are ``[..., rows, classes]``. The result is finite even where the model is certain,
    because log(1 − p₁) is computed as a sum over the other classes.
    """
    ranked = logits.detach().double().sort(dim=-1, descending=True).values
    return ranked[..., 0] - ranked[..., 1:].logsumexp(dim=-1)


def median_confidence(logits: Tensor) -> float:
    """Return the median over rows of the log-odds of the predicted class.

    ``logits`` are ``[rows, classes]``. For an even number of rows, the median is the mean of the
    two middle values.
    """
    return float(top_log_odds(logits).quantile(0.5))


def confidence_factor(logits: Tensor, target: float) -> float:
    """Return c > 0 for which the median log-odds of the predicted class of ``c · logits`` fit.

    ``logits`` are ``[rows, classes]``, and ``target`` is the wanted value of ``median_confidence``.
    If no c from 1/1000 to 1000 gives the target, the nearest end of that range is returned.
    """
    exact = logits.detach().double()
    low, high = -math.log(SEARCH), math.log(SEARCH)
    # Of each row, c z₁ − log Σ_others exp(c z) grows with c, because z₁ is the largest logit.
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_uncertain = median_confidence(math.exp(middle) * exact) < target
        low, high = (middle, high) if too_uncertain else (low, middle)
    return math.exp((low + high) / 2)


def calibration_factor(present: Tensor, original: Tensor) -> float:
    """Return the factor that gives the ``present`` logits the median confidence of ``original``.

    ``present`` and ``original`` are logits of the same held-out rows, ``[rows, classes]``. The
    factor is limited to the range from 1/2 to 2.
    """
    factor = confidence_factor(present, median_confidence(original))
    return min(MAX_FACTOR, max(1 / MAX_FACTOR, factor))
