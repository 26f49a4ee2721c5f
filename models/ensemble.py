"""Many models of one architecture as one tensor program: every parameter has a leading model axis.

Audits that need dozens of trainings of a small model are bound by the cost of starting operations,
not by arithmetic. Here N models take one step together, each on its own batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap


class Ensemble:
    """N copies of a module; ``parameters`` maps names to ``[N, *shape]``."""

    def __init__(self, shape: nn.Module, parameters: Mapping[str, Tensor]) -> None:
        """``shape`` lends its structure and none of its numbers."""
        self._shape = deepcopy(shape).to("meta")
        self.parameters = {
            name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()
        }

    @classmethod
    def of(cls, networks: Sequence[nn.Module]) -> "Ensemble":
        """Stack networks that were built alike.

        Raises:
            ValueError: one has buffers, which would be shared.
        """
        parameters, buffers = stack_module_state(list(networks))
        if buffers:
            raise ValueError(f"buffers have no place in an ensemble: {', '.join(buffers)}")
        return cls(networks[0], parameters)

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __call__(self, inputs: Sequence[Tensor]) -> Tensor:
        """Outputs, ``[N, batch, ...]``, of every model on its own ``[N, batch, ...]`` inputs."""
        found: Tensor = vmap(self._one)(self.parameters, list(inputs))
        return found

    def _one(self, parameters: dict[str, Tensor], inputs: list[Tensor]) -> Any:
        return functional_call(self._shape, parameters, (inputs,))

    def copy(self) -> "Ensemble":
        """The same models, free to go their own way."""
        return Ensemble(self._shape, self.parameters)

    def beginning(self, *prefixes: str) -> list[Tensor]:
        """The parameters whose names begin with one of ``prefixes``; all without any."""
        chosen = self.parameters.items()
        return [each for name, each in chosen if not prefixes or name.startswith(prefixes)]

    @torch.no_grad()
    def blend(self, other: "Ensemble", share: float, *prefixes: str) -> None:
        """θ ← (1 − s) θ + s θ_other, in place; parameters of other names stay."""
        for mine, theirs in zip(self.beginning(*prefixes), other.beginning(*prefixes), strict=True):
            mine.lerp_(theirs, share)

    @torch.no_grad()
    def add(self, directions: Sequence[Tensor], factors: Tensor) -> None:
        """θ ← θ + a g, in place; ``factors`` is a, one per model, ``[N]``."""
        for theta, direction in zip(self.parameters.values(), directions, strict=True):
            theta.add_(per_model(factors, theta) * direction)

    @torch.no_grad()
    def take(self, other: "Ensemble", number: int) -> None:
        """One model becomes what it is in ``other``, in place."""
        for mine, theirs in zip(self.beginning(), other.beginning(), strict=True):
            mine[number] = theirs[number]

    @torch.no_grad()
    def scale(self, factors: Tensor, *prefixes: str) -> None:
        """θ ← a θ, in place; ``factors`` is a, one per model, ``[N]``."""
        for theta in self.beginning(*prefixes):
            theta.mul_(per_model(factors, theta))

    def networks(self) -> Iterator[dict[str, Tensor]]:
        """The parameters of each model by itself."""
        for number in range(len(self)):
            yield {name: each[number].detach() for name, each in self.parameters.items()}


def per_model(numbers: Tensor, like: Tensor) -> Tensor:
    """``[N]`` numbers in a shape that multiplies ``like``, ``[N, ...]``."""
    return numbers.to(like.dtype).reshape(-1, *[1] * (like.dim() - 1))


def square_norms(tensors: Sequence[Tensor]) -> Tensor:
    """Squared norms over all tensors together, ``[N]``, in float64."""
    parts = [each.detach().double().square().flatten(1).sum(dim=1) for each in tensors]
    return torch.stack(parts).sum(dim=0)
