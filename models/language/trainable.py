"""What is trained and crosses the wire: named tensors of adapters, or of a whole model.

Names are those of peft's files; a tensor that a model uses twice (tied embeddings) comes once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any
from warnings import catch_warnings, filterwarnings

import torch
from torch import Tensor, nn

from models.language.adapters import adapted_modules, plain_name
from models.language.errors import LanguageModelError

Values = dict[str, Tensor]


def tune_all(model: nn.Module) -> None:
    """Make every weight trainable: full tuning.

    Raises:
        LanguageModelError: the weights are quantised, and have no gradient.
    """
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            raise LanguageModelError(
                f"{name} is quantised and cannot be tuned", hint="tune adapters instead"
            )
        parameter.requires_grad_()


def spare_activations(model: Any) -> None:
    """Have a causal language model compute its layers again on the way back: checkpointing.

    Raises:
        LanguageModelError: its architecture cannot.
    """
    with catch_warnings():
        # transformers renames the method; the new name is not in every version that is allowed.
        filterwarnings("ignore", ".*gradient_checkpointing_enable", FutureWarning)
        try:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        except ValueError as error:
            raise LanguageModelError(
                f"the layers cannot be computed again: {error}",
                hint="training.checkpointing = false, and a smaller training.micro_batch",
            ) from error
    if adapted_modules(model):
        # What goes into the first layer has no gradient, where only adapters are taught.
        model.enable_input_require_grads()


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable parameters themselves, in the model's order."""
    named = model.named_parameters()  # torch gives a tied tensor once, under its first name
    return {plain_name(name): parameter for name, parameter in named if parameter.requires_grad}


def values(model: nn.Module) -> Values:
    """Copies of the trainable parameters, on the CPU, in the model's order."""
    return {
        name: parameter.detach().to("cpu", copy=True)
        for name, parameter in trainable(model).items()
    }


@torch.no_grad()
def write(model: nn.Module, given: Mapping[str, Tensor]) -> None:
    """Set all trainable parameters; nothing is changed unless all names and shapes agree.

    Raises:
        LanguageModelError: a name is absent or unknown, a shape differs, or an entry is not finite.
    """
    own = trainable(model)
    differing = sorted(own.keys() ^ given.keys())
    if differing:
        word = "lack" if differing[0] in own else "have no place for"
        what = "the values" if differing[0] in own else "the trainable parameters"
        raise LanguageModelError(
            f"{what} {word} {differing[0]} ({len(differing)} names differ)",
            hint="both sides must train the same modules with the same rank, and freeze the same",
        )
    for name, parameter in own.items():
        if parameter.shape != given[name].shape:
            shapes = f"{tuple(given[name].shape)} and not {tuple(parameter.shape)}"
            raise LanguageModelError(f"{name} is {shapes}", hint="compare rank and base model")
        if not bool(torch.isfinite(given[name]).all()):
            raise LanguageModelError(f"{name} is not finite", hint="its training diverged")
    for name, parameter in own.items():
        parameter.copy_(given[name])


@dataclass(frozen=True, slots=True)
class Layout:
    """Names and shapes of named tensors, in order: how they lie in one flat vector."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, named: Mapping[str, Tensor]) -> "Layout":
        """The layout of these tensors, in their order."""
        return cls(tuple((name, tuple(tensor.shape)) for name, tensor in named.items()))

    @property
    def size(self) -> int:
        """Number of entries d."""
        return sum(prod(shape) for _, shape in self.shapes)

    def flat(self, named: Mapping[str, Tensor]) -> Tensor:
        """Lay the tensors into one vector, ``[d]``."""
        return torch.cat([named[name].detach().reshape(-1) for name, _ in self.shapes])

    def named(self, vector: Tensor) -> Values:
        """Views of ``vector``, ``[d]``, under their names.

        Raises:
            LanguageModelError: the vector has another length.
        """
        if vector.shape != (self.size,):
            shape = tuple(vector.shape)
            raise LanguageModelError(f"the vector is {shape} and not ({self.size},)")
        ends = accumulate((prod(shape) for _, shape in self.shapes), initial=0)
        spans = zip(self.shapes, pairwise(ends), strict=True)
        return {name: vector[start:end].view(shape) for (name, shape), (start, end) in spans}
