"""One party's block while the parties solve for a Newton step: it does what an order says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from models import arithmetic
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from unlearning.certificate import blur
from unlearning.newton import Block, Solve, begin, inner, regularised


@dataclass(slots=True)
class Solver:
    """The system between two orders; the block's parameters are p while there is one.

    Attributes:
        weight: λ.
        entropy: secret random bytes, for noise.
        held: ∇F of the block, or H p.
    """

    weight: float
    entropy: Callable[[int], bytes]
    held: Block = ()
    solve: Solve | None = None

    def obey(
        self, order: vfl_pb2.Newton, block: Sequence[nn.Parameter], held: Block
    ) -> vfl_pb2.Report | None:
        """Change ``block`` in place as ``order`` says; ``held`` is the gradient that was held.

        Raises:
            LookupError: there is no system yet.
            RemoteProtocolError: it orders nothing.
        """
        match order.WhichOneof("order"):
            case "regularise":
                self.held = regularised(block, held, self.weight)
                square = inner(self.held, self.held)
                return vfl_pb2.Report(held_square=square, inner=inner(self.held, block))
            case "begin":
                self.solve = begin(block, self.held)
                arithmetic.restore(block, self.solve.residual)
            case "advance":
                self.solve = self._begun.advance(_values(block), self.held, order.advance.length)
                residual = self.solve.residual
                return vfl_pb2.Report(residual_square=inner(residual, residual))
            case "turn":
                direction = self._begun.turn(_values(block), order.turn.momentum)
                arithmetic.restore(block, direction)
            case "move":
                arithmetic.restore(block, self._begun.moved(order.move.length))
            case "blur":
                blur(block, order.blur.sigma, self.entropy)
            case _:
                raise RemoteProtocolError("orders nothing of a Newton step")
        return None

    @property
    def _begun(self) -> Solve:
        if self.solve is None:
            raise LookupError("no Newton step has begun")
        return self.solve


def _values(block: Sequence[nn.Parameter]) -> tuple[Tensor, ...]:
    return tuple(each.detach() for each in block)
