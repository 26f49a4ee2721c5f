"""Gradient ascent on the forgotten answers: the plainest way to forget, and unbounded below."""

from typing import Final

from torch import Tensor

from unlearning.llm.likelihood import Nll
from unlearning.llm.promise import measured

PROMISE: Final = measured(
    "The loss has no end: without a stop it destroys the model, and membership tests then pass."
)


def gradient_ascent(forget: Nll) -> Tensor:
    """Return minus the mean cross entropy over the batch's label tokens, a scalar."""
    # Oblivionis (paper 000) Eq 36 with γ = 1: L = −E ℓ(y_f | x).
    return -forget.token_mean
