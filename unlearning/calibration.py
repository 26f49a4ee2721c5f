"""Calibration: one factor on all logits, so that a model is as sure of held-out rows as another.

A model that unlearned in a few epochs is less sure of every row than one trained to the end, and
that alone tells it from Retrain. How sure a fully trained model is of rows that it never saw, the
original shows on validation rows; they hold nothing of D_u.
"""

import math

from torch import Tensor

from unlearning.objectives import entropy

WIDEST = 2.0  # factor, either way: a model that is sure of everything must not run away
HALVINGS = 50


def entropy_factor(logits: Tensor, target: float) -> float:
    """Return c > 0 with which the mean entropy of ``c · logits`` is ``target``, in nats.

    ``logits`` are ``[rows, classes]``. The entropy falls as c grows; one out of reach gives the
    nearest factor, from 1/2 to 2.
    """
    exact = logits.double()
    low, high = -math.log(WIDEST), math.log(WIDEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        unsure = float(entropy(math.exp(middle) * exact).mean()) > target
        low, high = (middle, high) if unsure else (low, middle)
    return math.exp((low + high) / 2)
