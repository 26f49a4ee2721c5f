"""Trainable tensors of a language model, by name: the adapters only, or all weights.

The names are those in peft's files. A tensor that a model uses twice, such as shared input and
output embeddings, is listed once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any
from warnings import catch_warnings, filterwarnings

import torch
from torch import Tensor, nn

from models.language.adapters import adapted_modules, adapter_name
from models.language.errors import LanguageModelError

Values = dict[str, Tensor]


def make_all_trainable(model: nn.Module) -> None:
    """Make every weight trainable, for full tuning.

    Raises:
        LanguageModelError: a weight is quantised and has no gradient.
    """
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            raise LanguageModelError(
                f"{name} is quantised and cannot be trained", hint="train adapters instead"
            )
        parameter.requires_grad_()


def enable_checkpointing(model: Any) -> None:
    """Make a causal language model recompute its layers in the backward pass, to save memory.

    Raises:
        LanguageModelError: the model's architecture does not support gradient checkpointing.
    """
    with catch_warnings():
        # transformers renames the method; some supported versions lack the new name.
        filterwarnings("ignore", ".*gradient_checkpointing_enable", FutureWarning)
        try:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        except ValueError as error:
            raise LanguageModelError(
                f"this model does not support gradient checkpointing: {error}",
                hint="set training.checkpointing = false, and reduce training.micro_batch",
            ) from error
    if adapted_modules(model):
        # If only adapters are trained, the input of the first layer has no gradient of its own.
        model.enable_input_require_grads()


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters by name, of any shape, in the model's order."""
    named = model.named_parameters()  # torch lists a tied tensor once, under its first name
    return {adapter_name(name): parameter for name, parameter in named if parameter.requires_grad}


def trainable_values(model: nn.Module) -> Values:
    """Return copies of the trainable parameters, of any shape, on the CPU, in the model's order."""
    return {
        name: parameter.detach().to("cpu", copy=True)
        for name, parameter in trainable_parameters(model).items()
    }


@torch.no_grad()
def set_trainable(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Copy the tensors ``given``, of any shape, into all trainable parameters, by name.

    No parameter is changed unless all names and shapes agree and all elements are finite.

    Raises:
        LanguageModelError: a name is missing or unknown, a shape differs, or an element is not
            finite.
    """
    own = trainable_parameters(model)
    differing = sorted(own.keys() ^ given.keys())
    if differing:
        first = differing[0]
        where = "missing in the received values" if first in own else "not trainable in this model"
        raise LanguageModelError(
            f"the parameter {first} is {where}; in total {len(differing)} names differ "
            "between the received values and this model",
            hint="both sides must train and freeze the same modules, with the same rank",
        )
    for name, parameter in own.items():
        if parameter.shape != given[name].shape:
            shapes = f"{tuple(given[name].shape)}; expected {tuple(parameter.shape)}"
            raise LanguageModelError(
                f"the received tensor {name} has shape {shapes}",
                hint="compare the rank and the base model",
            )
        if not bool(torch.isfinite(given[name]).all()):
            raise LanguageModelError(
                f"the received tensor {name} has elements that are not finite",
                hint=f"the training of {name} diverged; use a lower learning rate",
            )
    for name, parameter in own.items():
        parameter.copy_(given[name])


@dataclass(frozen=True, slots=True)
class VectorLayout:
    """Names and shapes of an ordered list of tensors, to flatten the tensors into one vector."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> "VectorLayout":
        """Return the layout of ``named`` tensors, of any shape, in the order of ``named``."""
        return cls(tuple((name, tuple(tensor.shape)) for name, tensor in named.items()))

    @property
    def size(self) -> int:
        """Number d of elements of all tensors."""
        return sum(prod(shape) for _, shape in self.shapes)

    def flatten(self, named: Mapping[str, Tensor]) -> Tensor:
        """Return the ``named`` tensors, of any shape, as one vector, ``[d]``."""
        return torch.cat([named[name].detach().reshape(-1) for name, _ in self.shapes])

    def unflatten(self, vector: Tensor) -> Values:
        """Return views of ``vector``, ``[d]``, by name, each with the shape of its tensor.

        Raises:
            LanguageModelError: ``vector`` does not have d elements.
        """
        if vector.shape != (self.size,):
            raise LanguageModelError(
                f"the vector has shape {tuple(vector.shape)}, expected ({self.size},)"
            )
        ends = accumulate((prod(shape) for _, shape in self.shapes), initial=0)
        spans = zip(self.shapes, pairwise(ends), strict=True)
        return {name: vector[start:end].view(shape) for (name, shape), (start, end) in spans}
