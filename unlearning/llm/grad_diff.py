"""Gradient difference: climb the loss on the forgotten answers, descend it on those that stay.

Letters of Oblivionis (paper 000): γ = ``gamma``, weight of forgetting, α = ``alpha``, of retaining.
"""

from typing import Final

from torch import Tensor

from unlearning.llm.gradient_ascent import gradient_ascent
from unlearning.llm.likelihood import Nll
from unlearning.llm.promise import measured
from unlearning.llm.retain import retain_nll, weighted

PROMISE: Final = measured(
    "The forgetting term has no end, and in the long run no finite retain term holds against it."
)


def grad_diff(forget: Nll, retain: Nll, gamma: float = 1.0, alpha: float = 1.0) -> Tensor:
    """Return γ · (−CE_f) + α · CE_r, a scalar; both are means over a batch's label tokens."""
    # Oblivionis Eq 37.
    return weighted(gradient_ascent(forget), retain_nll(retain), gamma, alpha)
