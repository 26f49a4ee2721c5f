"""Iterations of FedORA: what each did, where it left all, and how the whole went.

Letters of the paper as in ``parties.vertical.methods.fedora``.
"""

from dataclasses import dataclass

from parties.vertical.engine.batch import Answered
from unlearning.primal_dual import Dual
from unlearning.step_sizes import StepSizes
from unlearning.stopping import Decision


@dataclass(frozen=True, slots=True)
class Iteration:
    """What one outer iteration did."""

    iteration: int
    forgetting: float  # S_u
    price: float | None  # Ω; None with the literal dual, where each parameter has its own
    threshold: float  # γ
    primal_step: float  # τ of its first sub-step
    dual_step: float  # σ
    dual_bound: float | None  # what σ may be at most; None before any gradient
    gradient_norm: float  # ‖g_u‖
    retain_loss: float | None  # mean over the sub-steps; None with δ = 0
    change: float | None = None  # ‖ΔΘ‖, known one iteration later
    validation_accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Unlearned:
    """How FedORA went."""

    iterations: list[Iteration]
    decision: Decision
    answered: Answered  # the last gradients of S_u in the first iteration
    gamma: float  # in the end

    @property
    def price(self) -> float | None:
        """Ω at the end; None with the literal dual, or where not even one iteration was finite."""
        return self.iterations[-1].price if self.iterations else None


@dataclass(frozen=True, slots=True)
class Walk:
    """Where FedORA stands after an iteration: with the parameters, all that the next one needs."""

    dual: Dual
    steps: StepSizes
    asked: int  # batches of D_r so far
    iterations: int  # so many are known
    newest: list[Iteration]  # this one, and the one before, whose change is known now
    decision: Decision
    looked: bool  # at the validation rows
    sound: bool  # the model passed the last look; a start of its own first has to recover
    answered: Answered | None  # in the first iteration
