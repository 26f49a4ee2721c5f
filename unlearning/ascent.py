"""Gradient ascent, the baseline: climb the loss on the forget set until it knows no more."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def clip_factor(squared_norm: float, limit: float) -> float:
    """Return the factor that brings a gradient to norm ``limit`` at most.

    ``squared_norm`` is summed over all parties' blocks, so that every block shrinks alike.
    """
    return limit / max(limit, math.sqrt(squared_norm))


def knows_nothing(loss: float, classes: int) -> bool:
    """Return whether mean cross entropy has reached log C, that of a uniform guess: stop there."""
    return loss >= math.log(classes)


@torch.no_grad()
def ascent_step(block: Sequence[Tensor], gradients: Sequence[Tensor], step: float) -> None:
    """Move one party's ``block`` in place up the loss; ``step`` is η times the clip factor."""
    # Gradient ascent: θ ← θ + η ∇CE(D_u).
    for theta, gradient in zip(block, gradients, strict=True):
        theta.add_(gradient, alpha=step)
