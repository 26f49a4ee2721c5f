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


def calibration_factor(present: Tensor, original: Tensor, margin: float) -> float:
    """Return the factor of ``present`` logits that makes them as sure as the ``original``'s.

    Both are ``[rows, classes]``, of the same held-out rows. Where the mean difference of their
    entropies is at most ``margin`` standard errors, paired over rows, the factor is 1: it would
    only carry the noise of few rows into the model.
    """
    target = entropy(original.double())
    apart = entropy(present.double()) - target
    error = float(apart.std(correction=0)) / math.sqrt(len(apart))
    if abs(float(apart.mean())) <= margin * error:
        return 1.0
    return entropy_factor(present, float(target.mean()))


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
