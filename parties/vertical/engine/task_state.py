"""The model of one party's half, and what one task gathers while it changes it."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from parties.common.errors import NoCopy
from parties.vertical.engine.features import Inputs
from parties.vertical.engine.solver import Solver
from protocol import vfl_pb2
from unlearning.primal_dual import LiteralDual

Block = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A network and the inputs that it was built for; None where a party has no features."""

    network: nn.Module
    inputs: Inputs | None

    @property
    def block(self) -> list[nn.Parameter]:
        """The trainable parameters."""
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]


@dataclass(slots=True)
class Work:
    """What one task gathers on the way, and leaves behind when the next begins."""

    task: vfl_pb2.Task = vfl_pb2.TASK_UNSPECIFIED
    optimiser: torch.optim.Optimizer | None = None
    anchor: Block = ()  # θ₀ of FedORA
    held: Block = ()  # g_u
    mark: Block = ()  # the parameters when the last gradient was held
    moved: float = 0.0  # squared distance between the last two marks
    dual: LiteralDual | None = None
    solver: Solver | None = None


class Copies(dict[str, tuple[Model, Block]]):
    """Kept copies by their names: the parameters, and the model that they are of."""

    def __missing__(self, slot: str) -> tuple[Model, Block]:
        raise NoCopy(slot)
