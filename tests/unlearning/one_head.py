"""A convex head in one process: what the parties compute apart, written down once more."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from unlearning.certificate import distance_bound
from unlearning.newton import Block, Effort, begin, curvature, inner, minimise, regularised

EFFORT = Effort(tolerance=1e-3, products=200)
EXACT = Effort(tolerance=1e-12, products=500)


@dataclass
class Head:
    """All blocks in one place, where nobody is apart; it answers what the solver asks.

    Attributes:
        features: of every block, [rows, width of the block], a column of ones where it has a bias.
        labels: [rows].
        weight: λ.
        blocks: Θ_k of every block, [width of the block, classes]; p while a system is solved.
    """

    features: Sequence[Tensor]
    labels: Tensor
    weight: float
    blocks: Block

    def __post_init__(self) -> None:
        self._probabilities, self._held = self._softmax(), self.blocks
        self._solve = begin(self.blocks, self.blocks)

    def loss(self) -> Tensor:
        """F at the blocks."""
        fit = cross_entropy(self._votes(), self.labels)
        return fit + self.weight / 2 * sum(each.square().sum() for each in self.blocks)

    def gradient(self) -> float:
        self._probabilities = self._softmax()
        truth = one_hot(self.labels, self._probabilities.shape[1])
        self._held = self._carried(self._probabilities - truth)
        return inner(self._held, self._held)

    def begin(self) -> None:
        self._solve = begin(self.blocks, self._held)
        self.blocks = self._solve.residual

    def product(self) -> float:
        self._held = self._carried(curvature(self._probabilities, self._votes()))
        return inner(self.blocks, self._held)

    def advance(self, length: float) -> float:
        self._solve = self._solve.advance(self.blocks, self._held, length)
        return inner(self._solve.residual, self._solve.residual)

    def turn(self, momentum: float) -> None:
        self.blocks = self._solve.turn(self.blocks, momentum)

    def move(self, length: float) -> None:
        self.blocks = self._solve.moved(length)

    @property
    def held(self) -> Block:
        """g, or H p after a product."""
        return self._held

    def _votes(self) -> Tensor:
        return torch.stack([a @ b for a, b in zip(self.features, self.blocks, strict=True)]).sum(0)

    def _softmax(self) -> Tensor:
        return torch.softmax(self._votes(), dim=1)

    def _carried(self, rows: Tensor) -> Block:
        """A_kᵀ of what every row says, and λ times the block."""
        carried = tuple(a.T @ rows / len(rows) for a in self.features)
        return regularised(self.blocks, carried, self.weight)


def head(seed: int, *, rows: int = 60, weight: float = 0.05) -> Head:
    """A random problem of two parties; the labels follow the features, so there is much to fit."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    widths, classes = (1 + seed % 4, 2 + seed % 5), 2 + seed % 3
    features = [torch.cat([draw(rows, width), torch.ones(rows, 1)], dim=1) for width in widths]
    truth = [3 * draw(width + 1, classes) for width in widths]
    votes = torch.stack([a @ b for a, b in zip(features, truth, strict=True)]).sum(0)
    labels = (votes + draw(rows, classes)).argmax(dim=1)
    blocks = tuple(torch.zeros_like(each) for each in truth)
    return Head(features, labels, weight, blocks)


def bounds(seed: int) -> list[tuple[float, float]]:
    """Certified and true distance to the optimum of a random problem, before and after steps."""
    problem = head(seed, weight=(0.3, 0.05, 0.01)[seed % 3])
    best = Head(problem.features, problem.labels, problem.weight, problem.blocks)
    minimise(best, EXACT, lambda norm: norm < 1e-14, 60)
    found = []
    for steps in (0, 1, 1, 1, 1, 1, 1):
        minimise(problem, EFFORT, lambda norm: False, steps)
        pairs = zip(problem.blocks, best.blocks, strict=True)
        distance = math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs))
        bound = distance_bound(math.sqrt(problem.gradient()), problem.weight)
        found.append((bound, distance))
    return found
