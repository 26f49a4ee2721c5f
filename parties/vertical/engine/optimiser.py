"""The update rule of a task, and the optimiser that it names, for one party's parameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
from torch import Tensor

from configs.agreement import TrainingSettings
from parties.common.json_codec import Tensors
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

Kind: TypeAlias = Literal["plain", "adam", "sgd"]
_KINDS: Final[dict[Kind, "vfl_pb2.OptimiserKind"]] = {
    "plain": vfl_pb2.PLAIN,
    "adam": vfl_pb2.ADAM,
    "sgd": vfl_pb2.SGD,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How every party updates its part of the model.

    Attributes:
        optimiser: ``adam`` or ``sgd``; ``plain``: every step names its own size.
        learning_rate: η; 0 for ``plain``.
        momentum: momentum of ``sgd``.
        weight_decay: weight decay.
        proximal: ρ, weight of FedORA's proximal term, which keeps the parameters near the
            parameters at the start.
    """

    optimiser: Kind = "plain"
    learning_rate: float = 0.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    proximal: float = 0.0

    @classmethod
    def like_training(cls, training: TrainingSettings, learning_rate: float) -> "UpdateRule":
        """The optimiser of the training, with the given learning rate."""
        if training.optimiser == "sgd":
            return cls("sgd", learning_rate, training.momentum, training.weight_decay)
        return cls("adam", learning_rate, 0.0, training.weight_decay)

    def message(self) -> vfl_pb2.UpdateRule:
        """The protocol message of this rule."""
        return vfl_pb2.UpdateRule(
            optimiser=_KINDS[self.optimiser],
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            proximal=self.proximal,
        )

    @classmethod
    def of_message(cls, message: vfl_pb2.UpdateRule) -> "UpdateRule":
        """The rule in a protocol message.

        Raises:
            RemoteProtocolError: a number is negative or not finite.
        """
        rate, proximal = message.learning_rate, message.proximal
        numbers = (rate, message.momentum, message.weight_decay, proximal)
        if not all(0 <= each < math.inf for each in numbers):
            raise RemoteProtocolError(
                f"the active party sent an update rule with the numbers {numbers}; each must be "
                "finite and at least 0"
            )
        return cls(_NAMES[message.optimiser], *numbers)


def build_optimiser(
    rule: UpdateRule | None, block: Sequence[Tensor]
) -> torch.optim.Optimizer | None:
    """A new optimiser for ``block``, parameters of any shape.

    The result is None if ``rule`` names no optimiser, or if ``block`` is empty.
    """
    if rule is None or rule.optimiser == "plain" or not block:
        return None
    rate, decay = rule.learning_rate, rule.weight_decay
    if rule.optimiser == "sgd":
        return torch.optim.SGD(block, rate, momentum=rule.momentum, weight_decay=decay)
    return torch.optim.Adam(block, rate, weight_decay=decay, fused=True)


def optimiser_tensors(optimiser: torch.optim.Optimizer | None) -> Tensors:
    """The state tensors of an optimiser, by parameter number and name.

    Each tensor has the shape of its parameter or is a scalar.
    """
    state = {} if optimiser is None else optimiser.state_dict()["state"]
    return {
        f"{place}.{name}": tensor
        for place, each in state.items()
        for name, tensor in each.items()
        if tensor is not None
    }


def load_optimiser_tensors(optimiser: torch.optim.Optimizer | None, tensors: Tensors) -> None:
    """Load ``tensors`` from ``optimiser_tensors``: each has a parameter's shape or is a scalar."""
    if optimiser is None:
        return
    state: dict[int, Tensors] = {}
    for key, tensor in tensors.items():
        place, _, name = key.partition(".")
        state.setdefault(int(place), {})[name] = tensor
    optimiser.load_state_dict(optimiser.state_dict() | {"state": state})
