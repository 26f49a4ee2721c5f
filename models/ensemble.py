"""Ensemble: many models of one architecture, trained together; tensors have a model axis.

When audits train dozens of small models, most of the time is spent on starting tensor operations,
not on their arithmetic. An ensemble therefore starts each operation only once for all N models;
each model uses its own batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

ROWS = 3  # axes of a tensor [N, batch, width]


class Ensemble:
    """N models of one architecture; ``parameters`` maps names to tensors ``[N, *shape]``."""

    def __init__(self, shape: nn.Module, parameters: Mapping[str, Tensor]) -> None:
        """Use the structure of ``shape``, but none of its values.

        ``parameters`` are ``[N, *shape of the parameter]`` by name.
        """
        self._shape = deepcopy(shape).to("meta")
        self.parameters = {
            name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()
        }

    @classmethod
    def of(cls, networks: Sequence[nn.Module]) -> "Ensemble":
        """Return an ensemble of ``networks``, which must have the same architecture.

        Raises:
            ValueError: a network has buffers, which all models would share.
        """
        parameters, buffers = stack_module_state(list(networks))
        if buffers:
            raise ValueError(
                f"the networks of an ensemble must not have buffers, but these networks have "
                f"{', '.join(buffers)}: use networks without BatchNorm"
            )
        return cls(networks[0], parameters)

    def __len__(self) -> int:
        """Return the number of models."""
        return len(next(iter(self.parameters.values())))

    def __call__(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return the outputs of each model on its own inputs, ``[N, batch, ...]``.

        ``inputs`` holds one tensor per party, ``[N, batch, ...]``.
        """
        found: Tensor = vmap(self._one)(self.parameters, list(inputs))
        return found

    def _one(self, parameters: dict[str, Tensor], inputs: list[Tensor]) -> Any:
        return functional_call(self._shape, parameters, (inputs,))

    def part(self, name: str, inputs: Tensor) -> Tensor:
        """Return the outputs of the submodule ``name`` of each model, ``[N, batch, ...]``.

        ``inputs`` are ``[N, batch, ...]``, one batch for each model.
        """
        shape, prefix = self._shape.get_submodule(name), f"{name}."
        own = {
            key.removeprefix(prefix): value
            for key, value in self.parameters.items()
            if key.startswith(prefix)
        }
        if _is_perceptron(shape) and inputs.dim() == ROWS:
            return _perceptron(shape, own, inputs)
        found: Tensor = vmap(lambda values, batch: functional_call(shape, values, (batch,)))(
            own, inputs
        )
        return found

    def copy(self) -> "Ensemble":
        """Return a copy that shares no parameters with this ensemble."""
        return Ensemble(self._shape, self.parameters)

    def like(self, parameters: Mapping[str, Tensor]) -> "Ensemble":
        """Return models of the same architecture with other ``parameters``, ``[N, ...]`` each."""
        return Ensemble(self._shape, parameters)

    def with_prefix(self, *prefixes: str) -> list[Tensor]:
        """Return the parameters whose names begin with one of ``prefixes``, ``[N, ...]`` each.

        Without prefixes, return all parameters.
        """
        chosen = self.parameters.items()
        return [each for name, each in chosen if not prefixes or name.startswith(prefixes)]

    @torch.no_grad()
    def blend(self, other: "Ensemble", share: float, *prefixes: str) -> None:
        """Set θ ← (1 − s) θ + s θ_other in place; s is ``share``.

        Only parameters whose names begin with one of ``prefixes`` are changed; without prefixes,
        all parameters are changed.
        """
        for own, value in zip(
            self.with_prefix(*prefixes), other.with_prefix(*prefixes), strict=True
        ):
            own.lerp_(value, share)

    @torch.no_grad()
    def add(self, directions: Sequence[Tensor], factors: Tensor) -> None:
        """Set θ ← θ + a g in place for all parameters.

        ``directions`` hold g, ``[N, ...]`` each; ``factors`` hold the factor a of each model,
        ``[N]``.
        """
        for theta, direction in zip(self.parameters.values(), directions, strict=True):
            theta.add_(broadcast_per_model(factors, theta) * direction)

    @torch.no_grad()
    def copy_model(self, other: "Ensemble", number: int) -> None:
        """Replace the parameters of model ``number`` by those of the same model in ``other``."""
        for own, value in zip(self.with_prefix(), other.with_prefix(), strict=True):
            own[number] = value[number]

    @torch.no_grad()
    def scale(self, factors: Tensor, *prefixes: str) -> None:
        """Set θ ← a θ in place; ``factors`` hold the factor a of each model, ``[N]``."""
        for theta in self.with_prefix(*prefixes):
            theta.mul_(broadcast_per_model(factors, theta))

    def networks(self) -> Iterator[dict[str, Tensor]]:
        """Yield the parameters of each model by name, without the model axis, ``[...]`` each."""
        for number in range(len(self)):
            yield {name: each[number].detach() for name, each in self.parameters.items()}


def _is_perceptron(shape: nn.Module) -> TypeGuard[nn.Sequential]:
    return isinstance(shape, nn.Sequential) and all(
        type(each) is nn.ReLU or (type(each) is nn.Linear and each.bias is not None)
        for each in shape
    )


def _perceptron(shape: nn.Sequential, own: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """The outputs of perceptrons, [N, batch, width]: equal to those of ``vmap``, but faster.

    ``vmap`` takes ten times as long as the operations themselves if the batches are small.
    """
    found = inputs
    for number, layer in enumerate(shape):
        if isinstance(layer, nn.ReLU):
            found = torch.relu(found)
        else:
            weight, bias = own[f"{number}.weight"], own[f"{number}.bias"]
            found = torch.baddbmm(bias[:, None], found, weight.mT)
    return found


def broadcast_per_model(numbers: Tensor, like: Tensor) -> Tensor:
    """Return ``numbers`` as ``[N, 1, ...]``, to multiply ``like`` by one number per model.

    ``numbers`` are ``[N]`` and ``like`` is ``[N, ...]``.
    """
    return numbers.to(like.dtype).reshape(-1, *[1] * (like.dim() - 1))


def squared_norm_per_model(tensors: Sequence[Tensor]) -> Tensor:
    """Return each model's squared norm over all tensors, in float64, ``[N]``.

    ``tensors`` are ``[N, ...]`` each.
    """
    parts = [each.detach().double().square().flatten(1).sum(dim=1) for each in tensors]
    return torch.stack(parts).sum(dim=0)
