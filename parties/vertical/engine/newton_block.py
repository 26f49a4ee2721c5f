"""One party's block of parameters in a Newton-CG step; the active party controls the step.

Notation of Newton-CG: F = the regularised loss, H = its Hessian, p = the search direction, r = the
residual, λ = the weight of the regulariser.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from models import arithmetic
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from unlearning.certificate import add_gaussian_noise
from unlearning.newton import Block, LinearSolve, add_regularisation, inner_product, start_solve


@dataclass(slots=True)
class NewtonBlock:
    """One party's part of the linear system of a Newton step, kept between the commands.

    While the system is being solved, the parameters of the block are set to the search direction p.
    """

    weight: float  # λ, the weight of the regulariser
    entropy: Callable[[int], bytes]  # returns secret random bytes, for noise
    # The last vector that the command ``regularise`` computed, ∇F or H p; one tensor for each
    # parameter.
    held: Block = ()
    # The state of the solver; None before the first command ``start``.
    solve: LinearSolve | None = None

    def execute(
        self, command: vfl_pb2.Newton, block: Sequence[nn.Parameter], held: Block
    ) -> vfl_pb2.BlockReport | None:
        """Carry out a command, which may change ``block`` in place.

        Args:
            command: the command.
            block: the parameters of the party, each of any shape.
            held: the gradients that the party has stored; each has the shape of its parameter.

        Returns:
            The party's contribution to each inner product that the command requests; None if the
            command requests no inner product.

        Raises:
            LookupError: the command needs a linear system, but no Newton step was started.
            RemoteProtocolError: the message contains no command.
        """
        match command.WhichOneof("command"):
            case "regularise":
                self.held = add_regularisation(block, held, self.weight)
                square = inner_product(self.held, self.held)
                return vfl_pb2.BlockReport(
                    held_square=square, inner_product=inner_product(self.held, block)
                )
            case "start":
                self.solve = start_solve(block, self.held)
                arithmetic.restore(block, self.solve.residual)
            case "step":
                self.solve = self._running.step(_values(block), self.held, command.step.length)
                residual = self.solve.residual
                return vfl_pb2.BlockReport(residual_square=inner_product(residual, residual))
            case "direction":
                direction = self._running.next_direction(_values(block), command.direction.momentum)
                arithmetic.restore(block, direction)
            case "apply":
                arithmetic.restore(block, self._running.apply(command.apply.length))
            case "noise":
                add_gaussian_noise(block, command.noise.sigma, self.entropy)
            case _:
                raise RemoteProtocolError(
                    "the active party sent a Newton message without a command"
                )
        return None

    @property
    def _running(self) -> LinearSolve:
        if self.solve is None:
            raise LookupError("the command needs a linear system, but no Newton step was started")
        return self.solve


def _values(block: Sequence[nn.Parameter]) -> tuple[Tensor, ...]:
    return tuple(each.detach() for each in block)
