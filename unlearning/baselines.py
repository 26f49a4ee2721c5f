"""Baselines of vertical unlearning: gradient ascent, random relabelling and ICO-like.

D_u are the rows to forget, θ is one party's block of the parameters, CE is cross entropy.

The baseline ICO-like subtracts the contribution of D_u from the model. In training, D_u contributed
about −η ∇CE(D_u), scaled by the fraction of D_u among all rows; therefore one step of gradient
ascent removes the contribution. Notation: n_u = number of rows of D_u, n = number of all rows, c_u
= the contribution, η_c = ``step``, r = ``limit``, θ₀ = the parameters of the trained model. The
name ICO-like contains "like" because the method is reimplemented from a description (Li et al., J.
Supercomputing 81, 845); the authors' own version is not public.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def clip_factor(squared_norm: float, limit: float) -> float:
    """Return the factor that scales a gradient to a norm of at most ``limit``.

    ``squared_norm`` is summed over the blocks of all parties, so that every block is scaled by the
    same factor.
    """
    return limit / max(limit, math.sqrt(squared_norm))


def reaches_uniform_loss(loss: float, classes: int) -> bool:
    """Return whether a mean cross entropy is at least log C, the loss of a uniform guess.

    Gradient ascent stops at this loss.
    """
    return loss >= math.log(classes)


@torch.no_grad()
def ascent_step(block: Sequence[Tensor], gradients: Sequence[Tensor], step: float) -> None:
    """Move the ``block`` of one party in place in the direction that raises the loss.

    ``block`` and ``gradients`` are lists of tensors of any shape; corresponding tensors have the
    same shape; ``step`` is η times the clip factor.
    """
    # Gradient ascent: θ ← θ + η ∇CE(D_u).
    for theta, gradient in zip(block, gradients, strict=True):
        theta.add_(gradient, alpha=step)


def wrong_labels(labels: Tensor, words: NDArray[np.uint64], classes: int) -> Tensor:
    """Return a class other than the label for each row, sampled uniformly, ``[rows]``.

    ``labels`` are ``[rows]``; ``words`` are uniform random numbers, ``[rows]``. With two classes
    the result is always the other class.

    Raises:
        ValueError: there are fewer than two classes.
    """
    if classes < 2:
        raise ValueError(f"random relabelling needs 2 or more classes (got {classes})")
    shift = 1 + torch.from_numpy((words % np.uint64(classes - 1)).astype(np.int64))
    return (labels + shift) % classes


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """Settings that determine how large a contribution the baseline ICO-like removes."""

    step: float  # η_c
    share: float  # n_u / n
    limit: float  # r

    def factor(self, gradient_square: float, parameter_square: float) -> float:
        """Return the factor that turns ∇CE(D_u) into the contribution c_u.

        ``gradient_square`` and ``parameter_square`` are squared norms, summed over the blocks of
        all parties.
        """
        # c_u = (η_c n_u / n) ∇CE(D_u; θ₀), clipped to ‖c_u‖ ≤ r ‖θ₀‖.
        factor = self.step * self.share
        size, bound = factor * math.sqrt(gradient_square), self.limit * math.sqrt(parameter_square)
        return factor if size <= bound else factor * bound / size
