"""A convex head with all blocks in one process, as the reference for the Newton solver."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from unlearning.certificate import distance_bound
from unlearning.newton import (
    Block,
    NewtonParties,
    NewtonStep,
    SolverBudget,
    add_regularisation,
    curvature,
    inner_product,
    newton_step,
    start_solve,
)

EFFORT = SolverBudget(tolerance=1e-3, products=200)
EXACT = SolverBudget(tolerance=1e-12, products=500)


def minimise(
    parties: NewtonParties, budget: SolverBudget, stop: Callable[[float], bool], steps: int
) -> list[NewtonStep]:
    """Take Newton steps until ``stop(‖g‖)``, until no step makes ‖g‖ smaller, or ``steps`` times.

    The first entry of the result stands for the initial parameters.
    """
    taken = [NewtonStep(math.sqrt(parties.gradient()), 0, 1, 1.0)]
    while len(taken) <= steps and taken[-1].moves and not stop(taken[-1].gradient_norm):
        taken.append(newton_step(parties, taken[-1].gradient_norm, budget))
    return taken


@dataclass
class Head:
    """All blocks of a head; implements ``NewtonParties`` without communication.

    Attributes:
        features: of each block, ``[rows, width of the block]``, with a column of ones for a bias.
        labels: ``[rows]``.
        weight: λ.
        blocks: Θ_k of each block, ``[width of the block, classes]``; p while a system is solved.
    """

    features: Sequence[Tensor]
    labels: Tensor
    weight: float
    blocks: Block

    def __post_init__(self) -> None:
        self._probabilities, self._held = self._softmax(), self.blocks
        self._solve = start_solve(self.blocks, self.blocks)

    def loss(self) -> Tensor:
        """Return F at the present blocks, a scalar."""
        fit = cross_entropy(self._votes(), self.labels)
        return fit + self.weight / 2 * sum(each.square().sum() for each in self.blocks)

    def gradient(self) -> float:
        self._probabilities = self._softmax()
        truth = one_hot(self.labels, self._probabilities.shape[1])
        self._held = self._times_features(self._probabilities - truth)
        return inner_product(self._held, self._held)

    def begin(self) -> None:
        self._solve = start_solve(self.blocks, self._held)
        self.blocks = self._solve.residual

    def product(self) -> float:
        self._held = self._times_features(curvature(self._probabilities, self._votes()))
        return inner_product(self.blocks, self._held)

    def step(self, length: float) -> float:
        self._solve = self._solve.step(self.blocks, self._held, length)
        return inner_product(self._solve.residual, self._solve.residual)

    def next_direction(self, momentum: float) -> None:
        self.blocks = self._solve.next_direction(self.blocks, momentum)

    def apply(self, length: float) -> None:
        self.blocks = self._solve.apply(length)

    @property
    def held(self) -> Block:
        """The last g, or H p after a product."""
        return self._held

    def _votes(self) -> Tensor:
        return torch.stack([a @ b for a, b in zip(self.features, self.blocks, strict=True)]).sum(0)

    def _softmax(self) -> Tensor:
        return torch.softmax(self._votes(), dim=1)

    def _times_features(self, rows: Tensor) -> Block:
        """Return A_kᵀ ``rows`` / n + λ times the block, for each block."""
        products = tuple(a.T @ rows / len(rows) for a in self.features)
        return add_regularisation(self.blocks, products, self.weight)


def random_head(seed: int, *, rows: int = 60, weight: float = 0.05) -> Head:
    """Return a random problem of two parties, whose labels depend on the features."""
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
    """Return certified and true distances to the optimum of a random problem, after each step."""
    problem = random_head(seed, weight=(0.3, 0.05, 0.01)[seed % 3])
    best = Head(problem.features, problem.labels, problem.weight, problem.blocks)
    minimise(best, EXACT, lambda norm: norm < 1e-14, 60)
    result = []
    for steps in (0, 1, 1, 1, 1, 1, 1):
        minimise(problem, EFFORT, lambda norm: False, steps)
        pairs = zip(problem.blocks, best.blocks, strict=True)
        distance = math.sqrt(sum(float((a - b).square().sum()) for a, b in pairs))
        bound = distance_bound(math.sqrt(problem.gradient()), problem.weight)
        result.append((bound, distance))
    return result
