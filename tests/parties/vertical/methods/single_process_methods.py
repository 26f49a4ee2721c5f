"""The baselines in one process, written independently: the reference for equality tests."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from monolith import Monolith
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Rows = Sequence[int]


def descend(
    model: Monolith, batches: Iterator[Rows], descent: torch.optim.Optimizer, labels: Tensor
) -> None:
    """Steps of an optimiser on the mean cross entropy."""
    for batch in batches:
        descent.zero_grad()
        cross_entropy(model.logits(batch), labels[batch]).backward()
        descent.step()


@torch.no_grad()
def ascent_step(model: Monolith, gradient: Sequence[Tensor], step: float) -> None:
    """One step along a gradient."""
    for parameter, part in zip(model.parameters, gradient, strict=True):
        parameter.add_(step * part)


def norm(tensors: Sequence[Tensor]) -> float:
    """The joint norm of tensors."""
    return math.sqrt(sum(float(each.detach().square().sum()) for each in tensors))


def ascend(model: Monolith, forgotten: Rows, rate: float, clip: float, steps: int) -> None:
    """Gradient ascent with the joint norm clipped."""
    for _ in range(steps):
        gradient = model.gradient(model.loss(forgotten))
        ascent_step(model, gradient, rate * min(1.0, clip / norm(gradient)))


def ico(model: Monolith, forgotten: Rows, step: float, limit: float) -> float:
    """Add the contribution of D_u; return the factor of its gradient."""
    gradient = model.gradient(model.loss(forgotten))
    most = limit * norm(model.parameters)
    factor = min(step, most / norm(gradient))
    ascent_step(model, gradient, factor)
    return factor


@dataclass
class Cvfu:
    """CVFU with the corrected sign, on one vector of parameters."""

    model: Monolith
    forgotten: Rows
    retained: Rows
    offline: tuple[str, ...]
    rate: float
    batch: int
    held: list[Tensor] = field(init=False)
    sums: Tensor = field(init=False)
    share: Tensor = field(init=False)
    before: Tensor = field(init=False)

    def __post_init__(self) -> None:
        votes = {name: self.votes(name, self.retained) for name in self.model.networks}
        self.sums = sum(votes.values()) + self.bias  # type: ignore[operator]
        whole = sum(each.abs() for each in votes.values())
        self.share = sum(votes[name].abs() for name in self.online) / whole  # type: ignore[operator]
        self.before = sum(votes[name] for name in self.online)  # type: ignore[assignment]
        loss = cross_entropy(self.model.logits(self.forgotten), self.model.labels[self.forgotten])
        self.held = [torch.zeros_like(each) for each in self.moving]
        self.held = list(torch.autograd.grad(loss, self.moving))

    @property
    def online(self) -> list[str]:
        return [name for name in self.model.networks if name not in self.offline]

    @property
    def moving(self) -> list[nn.Parameter]:
        return [each for name in self.online for each in self.model.networks[name].parameters()]

    @property
    def bias(self) -> Tensor:
        return self.model.networks["hub"].top.bias.detach().clone()  # type: ignore[union-attr,operator]

    def votes(self, name: str, rows: Rows) -> Tensor:
        network = self.model.networks[name]
        bottom = network.bottom if name == "hub" else network
        with torch.no_grad():
            return bottom(self.model.inputs[name][rows])  # type: ignore[operator,no-any-return]

    def epoch(self, number: int, ascent: float) -> None:
        """One pass over D_r at a fixed sum, then the new sum."""
        rate, bias = self.rate / math.sqrt(number), self.bias
        for start in range(0, len(self.retained), self.batch):
            places = slice(start, start + self.batch)
            rows = self.retained[places]
            logits = self.model.logits(rows)
            at = self.sums[places] + logits - logits.detach()
            gradient = torch.autograd.grad(cross_entropy(at, self.model.labels[rows]), self.moving)
            for parameter, part, held in zip(self.moving, gradient, self.held, strict=True):
                with torch.no_grad():
                    parameter.sub_(rate * (part - ascent * held))
            ascent = 0.0
        after = sum(self.votes(name, self.retained) for name in self.online)
        self.sums = self.sums + (after - self.before) / self.share + self.bias - bias
        self.before = after  # type: ignore[assignment]


def shuffled(order: np.ndarray, size: int) -> Iterator[Rows]:
    """The batches of one epoch."""
    yield from (order[start : start + size] for start in range(0, len(order), size))


def first(batches: Iterator[Rows], steps: int) -> Iterator[Rows]:
    """The first ``count`` batches."""
    return islice(batches, steps)
