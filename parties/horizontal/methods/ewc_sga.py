"""EWC-SGA: the leaving client's gradient ascent with an elastic penalty.

The penalty is large where the remaining clients' Fisher information is large.

Notation (Wu et al. 2022): F = diagonal Fisher information on the remaining clients' rows; θ_g = the
original model; λ = the strength of the penalty; L_ce(D_u) = the cross entropy of the forgotten
rows. The leaving clients minimise −L_ce(D_u) + (λ/2) Σ F_i (θ_i − θ_g,i)². In the paper, the
clients maximise the penalty too. This pushes the model away from θ_g, so the penalty is minimised
here.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from torch import Tensor

from configs.client_unlearning import Reads
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.ascent import ClientAscentSettings
from parties.horizontal.methods.method import StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import StepResult

FLOOR = 1e-8  # smallest entry of F


@dataclass(frozen=True, slots=True)
class EwcSgaState:
    """The state of EWC-SGA."""

    model: Tensor  # the model, ``[d]``
    fisher: Tensor  # F, ``[d]``


@dataclass(frozen=True, slots=True)
class EwcSga(StagedMethod[EwcSgaState]):
    """Runs gradient ascent with an elastic penalty, and then recovery."""

    ascent: RoundPlan  # rounds of gradient ascent; the field ``proximal`` of their local task is λ
    recover: RoundPlan  # rounds of recovery
    name: str = "ewc-sga"
    label: ClassVar = Label("EWC-SGA", "gradient ascent with an elastic penalty")
    settings: ClassVar = ClientAscentSettings
    reads: ClassVar[Reads] = "leaving update"
    state: ClassVar[type[EwcSgaState]] = EwcSgaState

    @classmethod
    def from_settings(cls, plan: ClientAscentSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        ascent = rounds(plan.ascent, "climb", "elastic", plan.strength)
        return cls(ascent, rounds(plan.recover, "recover"))

    def tasks(self) -> list[LocalTask]:
        """Return also the report of the Fisher information."""
        return [*self.planned_tasks(), replace(self.ascent.task, aim="fisher")]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of gradient ascent."""
        return self.ascent.rounds

    def init(self, run: HorizontalRun) -> EwcSgaState:
        """Start from the original model, and receive F from the remaining clients."""
        task, dtype = replace(self.ascent.task_at(0), aim="fisher"), run.original.dtype
        fisher = run.mean_update(run.remaining, task, {"model": run.original}).delta
        return EwcSgaState(run.original, fisher.to(dtype).clamp_min(FLOOR))

    def round(self, run: HorizontalRun, state: EwcSgaState, k: int) -> StepResult[EwcSgaState]:
        """Run one round of gradient ascent."""
        slots = {"model": state.model, "anchor": run.original, "fisher": state.fisher}
        mean = run.mean_update(run.leaving, self.ascent.task_at(k), slots)
        model = state.model + mean.delta.to(state.model.dtype)
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss))
        return replace(state, model=model), record
