"""Calibration: scale all logits to restore the model's earlier confidence on held-out rows.

A model that unlearned in a few epochs is less confident on every row than a fully trained model,
and this difference alone distinguishes the model from Retrain. The target is the confidence of the
trained model on validation rows, which were not used for training and contain no row of D_u.
"""

import math

from torch import Tensor

from unlearning.objectives import softmax_entropy

MAX_FACTOR = 2.0  # and at least its inverse: bounds the search where no factor fits
BISECTIONS = 50


def calibration_factor(present: Tensor, original: Tensor, margin: float) -> float:
    """Return the factor that gives the ``present`` logits the mean entropy of ``original``.

    ``present`` and ``original`` are logits of the same held-out rows, ``[rows, classes]``. The
    entropies are compared row by row. If the mean difference is at most ``margin`` standard errors,
    it may be chance, and the factor is 1.
    """
    target = softmax_entropy(original.double())
    difference = softmax_entropy(present.double()) - target
    error = float(difference.std(correction=0)) / math.sqrt(len(difference))
    if abs(float(difference.mean())) <= margin * error:
        return 1.0
    return entropy_factor(present, float(target.mean()))


def entropy_factor(logits: Tensor, target: float) -> float:
    """Return c > 0 for which the mean entropy of ``c · logits`` is ``target``, in nats.

    ``logits`` are ``[rows, classes]``. The entropy falls as c grows. If no c from 1/2 to 2 gives
    the target, the nearest end of that range is returned.
    """
    exact = logits.double()
    low, high = -math.log(MAX_FACTOR), math.log(MAX_FACTOR)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        too_uncertain = float(softmax_entropy(math.exp(middle) * exact).mean()) > target
        low, high = (middle, high) if too_uncertain else (low, middle)
    return math.exp((low + high) / 2)
