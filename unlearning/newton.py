"""Newton's method with conjugate gradients, for a convex head that is split between parties.

The model is softmax regression over summed votes: party k has the features A_k, the linear map Θ_k
and the votes A_k Θ_k, and P is the softmax of the sum of all votes. F = mean cross
entropy + λ/2 ‖Θ‖² over all parameters, biases included, so F is λ-strongly convex. Every quantity
in this module belongs to one party's block, or is a sum of numbers that each party computes from
its own block.

Notation: g = ∇F, H = ∇²F, p = search direction, x = solution of H x = −g, r = −g − H x, R = sum of
A_k p_k over the parties, M = product of R with the Hessian of the loss with respect to the votes,
α = step length along p, β = momentum. Party k obtains its part of H p as A_kᵀ M.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

Block: TypeAlias = tuple[Tensor, ...]
# Share of the predicted decrease of ‖g‖ that a step must reach (Eisenstat & Walker 1994).
MIN_DECREASE = 1e-4
MIN_LENGTH = 2.0**-10  # of a step; below it rounding errors decide


def curvature(probabilities: Tensor, votes: Tensor) -> Tensor:
    """Return M, the product of ``votes`` with each row's Hessian of the loss, ``[rows, classes]``.

    ``probabilities`` are P and ``votes`` are R, both ``[rows, classes]``.
    """
    # Row by row (diag(p) - p pᵀ) R: M = P∘R - P · rowsum(P∘R).
    weighted = probabilities * votes
    return weighted - probabilities * weighted.sum(dim=1, keepdim=True)


def curvature_quadratic(probabilities: Tensor, votes: Tensor) -> Tensor:
    """Return ½ Σ R·M, a scalar whose gradient with respect to ``votes`` is M.

    ``probabilities`` are P and ``votes`` are R, both ``[rows, classes]``.
    """
    return (votes * curvature(probabilities, votes)).sum() / 2


@dataclass(frozen=True, slots=True)
class LinearSolve:
    """State of one party's block while conjugate gradients solve H x = −g."""

    point: Block  # parameters at which g and H were taken
    solution: Block  # x
    residual: Block  # r

    def step(self, direction: Block, product: Block, length: float) -> "LinearSolve":
        """Return the state after a step of ``length`` α along ``direction`` p.

        ``product`` is H p. All blocks are lists of tensors of any shape; corresponding tensors have
        the same shape.
        """
        # Conjugate gradients (Hestenes & Stiefel 1952): x ← x + α p, r ← r - α H p.
        return replace(
            self,
            solution=_plus(self.solution, direction, length),
            residual=_plus(self.residual, product, -length),
        )

    def next_direction(self, direction: Block, momentum: float) -> Block:
        """Return the next search direction p, tensors of any shape; ``direction`` is the last p."""
        # p ← r + β p (Hestenes & Stiefel 1952).
        return _plus(self.residual, direction, momentum)

    def apply(self, length: float) -> Block:
        """Return the parameters plus ``length`` times the Newton step x, tensors of any shape."""
        return _plus(self.point, self.solution, length)


def start_solve(point: Sequence[Tensor], gradient: Sequence[Tensor]) -> LinearSolve:
    """Return the state before the first step: x is zero and r = −g, which is also the first p.

    ``point`` are the parameters and ``gradient`` is g, both lists of tensors of any shape;
    corresponding tensors have the same shape.
    """
    here = tuple(parameter.detach().clone() for parameter in point)
    return LinearSolve(
        here,
        tuple(torch.zeros_like(parameter) for parameter in here),
        tuple(-part for part in gradient),
    )


def add_regularisation(block: Sequence[Tensor], gradient: Sequence[Tensor], weight: float) -> Block:
    """Return ``gradient`` + λ ``block``; arguments and result are tensors of any shape.

    Corresponding tensors have the same shape. ``weight`` is λ. Given the parameters and the
    gradient of the cross entropy, the result is g; given p and the curvature part of H p, the
    result is H p.
    """
    return _plus(tuple(gradient), tuple(part.detach() for part in block), weight)


def inner_product(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Return the inner product of two blocks in float64.

    ``left`` and ``right`` are lists of tensors of any shape; corresponding tensors have the same
    shape.
    """
    pairs = zip(left, right, strict=True)
    return sum(float((a.detach().double() * b.detach().double()).sum()) for a, b in pairs)


class NewtonParties(Protocol):
    """Operations that all parties do together; returned numbers are sums over all blocks."""

    def gradient(self) -> float:
        """Compute the gradient g at the present parameters and return ‖g‖²."""

    def begin(self) -> None:
        """Start solving H x = −g at the present parameters, with p ← −g."""

    def product(self) -> float:
        """Compute H p and return pᵀ H p."""

    def step(self, length: float) -> float:
        """Step along p, x ← x + α p and r ← r − α H p, and return ‖r‖²."""

    def next_direction(self, momentum: float) -> None:
        """Set the next direction, p ← r + β p."""

    def apply(self, length: float) -> None:
        """Set the parameters to their values at the start of the step, plus ``length`` times x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolverBudget:
    """Stopping rule of the conjugate gradients in one Newton step."""

    tolerance: float  # η: a system is solved once ‖r‖ ≤ η ‖g‖
    products: int  # largest number of products with H in one system


@dataclass(frozen=True, slots=True)
class NewtonStep:
    """Result of one Newton step."""

    gradient_norm: float  # ‖g‖ at the end of the step
    products: int  # with H
    gradients: int  # evaluations of g; more than one where the full step was too long
    length: float  # share of the full step that was taken; 0 if no share makes ‖g‖ smaller

    @property
    def moves(self) -> bool:
        """Whether a further step may reduce ‖g‖."""
        return self.length > 0 and self.gradient_norm > 0


def newton_step(parties: NewtonParties, gradient_norm: float, budget: SolverBudget) -> NewtonStep:
    """Take one Newton step from the parameters at which g was computed last.

    ``gradient_norm`` is ‖g‖ at these parameters. The step is halved until ‖g‖ falls enough; if no
    step length suffices, the parameters do not change.
    """
    parties.begin()
    products, residual = _conjugate_gradients(parties, gradient_norm, budget)
    length, tried = 1.0, 0
    while length >= MIN_LENGTH:
        parties.apply(length)
        found, tried = math.sqrt(parties.gradient()), tried + 1
        # Inexact Newton with backtracking (Eisenstat & Walker 1994, Alg. INB).
        if found <= (1 - MIN_DECREASE * length * (1 - residual / gradient_norm)) * gradient_norm:
            return NewtonStep(found, products, tried, length)
        length /= 2
    parties.apply(0.0)
    return NewtonStep(math.sqrt(parties.gradient()), products, tried + 1, 0.0)


def _conjugate_gradients(
    parties: NewtonParties, gradient_norm: float, budget: SolverBudget
) -> tuple[int, float]:
    """Solve H x = −g; return the number of products with H and ‖r‖."""
    square, products = gradient_norm**2, 0
    enough = (budget.tolerance * gradient_norm) ** 2
    while products < budget.products:
        along = parties.product()
        products += 1
        before, square = square, parties.step(square / along)
        if square <= enough:
            break
        parties.next_direction(square / before)
    return products, math.sqrt(square)


def _plus(left: Sequence[Tensor], right: Sequence[Tensor], weight: float) -> Block:
    return tuple(a + weight * b for a, b in zip(left, right, strict=True))
