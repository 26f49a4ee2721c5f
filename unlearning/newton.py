"""Newton's method with conjugate gradients for a convex head that is split between parties.

The model is softmax regression over summed votes: every party k has features A_k, a linear map Θ_k
and the votes A_k Θ_k; P = softmax of the votes' sum. F = mean cross entropy + λ/2 ‖Θ‖², over all
parameters, biases included, so F is λ-strongly convex. Every quantity below is of one party's
block, or a sum over all blocks of one number that each party computes by itself.

Letters: g = ∇F, H = ∇²F, p = direction, x = solution of H x = -g, r = -g - H x, R = sum of the
parties' A_k p_k, M = what H does to R before the parties carry it back by A_kᵀ.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

Block: TypeAlias = tuple[Tensor, ...]
FALL = 1e-4  # part of the promised decrease of ‖g‖ that a step must keep (Eisenstat & Walker 1994)
SHORTEST = 2.0**-10  # of a step, below which rounding has the word


def curvature(probabilities: Tensor, votes: Tensor) -> Tensor:
    """Return M: how the gradient of each row's loss by its votes changes along ``votes``.

    Both are [rows, classes]; ``votes`` is R.
    """
    # Row by row (diag(p) - p pᵀ) R: M = P∘R - P · rowsum(P∘R).
    weighted = probabilities * votes
    return weighted - probabilities * weighted.sum(dim=1, keepdim=True)


def quadratic(probabilities: Tensor, votes: Tensor) -> Tensor:
    """Return half of Σ R·M, whose gradient by ``votes`` is M; a scalar."""
    return (votes * curvature(probabilities, votes)).sum() / 2


@dataclass(frozen=True, slots=True)
class Solve:
    """One party's block of the linear system H x = -g, between two products with H."""

    point: Block  # where g and H were taken
    solution: Block  # x
    residual: Block  # r

    def advance(self, direction: Block, product: Block, length: float) -> "Solve":
        """Return the system after a step along p; ``product`` is H p."""
        # Conjugate gradients (Hestenes & Stiefel 1952): x ← x + α p, r ← r - α H p.
        return replace(
            self,
            solution=_plus(self.solution, direction, length),
            residual=_plus(self.residual, product, -length),
        )

    def turn(self, direction: Block, momentum: float) -> Block:
        """Return the next p."""
        # p ← r + β p.
        return _plus(self.residual, direction, momentum)

    def moved(self, length: float) -> Block:
        """Return the point after a part of the whole Newton step."""
        return _plus(self.point, self.solution, length)


def begin(point: Sequence[Tensor], gradient: Sequence[Tensor]) -> Solve:
    """Return the system at ``point``, whose solution begins at zero; r is the first p."""
    here = tuple(each.detach().clone() for each in point)
    return Solve(
        here, tuple(torch.zeros_like(each) for each in here), tuple(-each for each in gradient)
    )


def regularised(block: Sequence[Tensor], gradient: Sequence[Tensor], weight: float) -> Block:
    """Return ``gradient`` with λ times ``block`` added: that of F, or H p where the block is p."""
    return _plus(tuple(gradient), tuple(each.detach() for each in block), weight)


def inner(left: Sequence[Tensor], right: Sequence[Tensor]) -> float:
    """Return the inner product of two blocks, in float64."""
    pairs = zip(left, right, strict=True)
    return sum(float((a.detach().double() * b.detach().double()).sum()) for a, b in pairs)


class Parties(Protocol):
    """What the solver asks of all parties together; each number is a sum over their blocks."""

    def gradient(self) -> float:
        """Differentiate F where the parties stand: ‖g‖²."""

    def begin(self) -> None:
        """Take the present point and its gradient for the system; p ← -g."""

    def product(self) -> float:
        """Multiply p by H: pᵀ H p."""

    def advance(self, length: float) -> float:
        """Go along p, x ← x + α p and r ← r - α H p: ‖r‖²."""

    def turn(self, momentum: float) -> None:
        """Take the next direction, p ← r + β p."""

    def move(self, length: float) -> None:
        """Stand at the point plus a part of x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """What the solver may spend."""

    tolerance: float  # η: a system is solved once ‖r‖ ≤ η ‖g‖
    products: int  # with H, in one system


@dataclass(frozen=True, slots=True)
class Step:
    """What one Newton step did."""

    gradient_norm: float  # ‖g‖ at its end
    products: int  # with H
    gradients: int  # passes for g: more than one where the whole step was too long
    length: float  # part of the whole step that was gone; 0: none makes ‖g‖ smaller

    @property
    def moves(self) -> bool:
        """Whether a further step may make ‖g‖ smaller."""
        return self.length > 0 and self.gradient_norm > 0


def newton_step(parties: Parties, gradient_norm: float, effort: Effort) -> Step:
    """Walk one step from where g was just taken; ‖g‖ is smaller at its end, or nothing moved."""
    parties.begin()
    products, residual = _conjugate(parties, gradient_norm, effort)
    length, tried = 1.0, 0
    while length >= SHORTEST:
        parties.move(length)
        found, tried = math.sqrt(parties.gradient()), tried + 1
        # Inexact Newton with backtracking (Eisenstat & Walker 1994, Alg. INB).
        if found <= (1 - FALL * length * (1 - residual / gradient_norm)) * gradient_norm:
            return Step(found, products, tried, length)
        length /= 2
    parties.move(0.0)
    return Step(math.sqrt(parties.gradient()), products, tried + 1, 0.0)


def _conjugate(parties: Parties, gradient_norm: float, effort: Effort) -> tuple[int, float]:
    """Solve H x = -g; the products with H that it took, and ‖r‖."""
    square, products = gradient_norm**2, 0
    enough = (effort.tolerance * gradient_norm) ** 2
    while products < effort.products:
        along = parties.product()
        products += 1
        before, square = square, parties.advance(square / along)
        if square <= enough:
            break
        parties.turn(square / before)
    return products, math.sqrt(square)


def minimise(
    parties: Parties, effort: Effort, stop: Callable[[float], bool], steps: int
) -> list[Step]:
    """Walk Newton steps until ``stop`` is content with ‖g‖, nothing moves, or ``steps`` are done.

    The first entry is where the parties stood.
    """
    walked = [Step(math.sqrt(parties.gradient()), 0, 1, 1.0)]
    while len(walked) <= steps and walked[-1].moves and not stop(walked[-1].gradient_norm):
        walked.append(newton_step(parties, walked[-1].gradient_norm, effort))
    return walked


def _plus(left: Sequence[Tensor], right: Sequence[Tensor], weight: float) -> Block:
    return tuple(a + weight * b for a, b in zip(left, right, strict=True))
