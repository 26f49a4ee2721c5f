"""A method similar to AdaClipping: dampen parameters that matter mostly for the leaving client."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.table import Positive
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.method import ClientMethod, ModelState, StageBuilder
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.requests.driver import StepRecord, Stop
from unlearning.horizontal.baselines import dampen_parameters


class DampeningSettings(ClientMethodSettings):
    """Method adaclipping-like: shrinks the parameters that matter most for the forgotten rows."""

    recover: StageSettings = StageSettings()  # rounds of recovery
    # A parameter is dampened if its Fisher information on the forgotten rows is more than this
    # factor times its Fisher information on the remaining rows.
    ratio: Positive = 10.0
    strength: Positive = 1.0  # strength of the dampening


@dataclass(frozen=True, slots=True)
class AdaClipping(ClientMethod[ModelState]):
    """The server dampens parameters in one step; then the remaining clients run recovery.

    Attributes:
        fisher_task: the local task that reports Fisher information.
        recover: rounds of recovery.
        ratio: a parameter is dampened if its Fisher information at the leaving client is more than
            ``ratio`` times its Fisher information at the other clients.
        strength: λ.
    """

    fisher_task: LocalTask
    recover: RoundPlan
    ratio: float = 10.0
    strength: float = 1.0
    name: str = "adaclipping-like"
    settings: ClassVar = DampeningSettings

    @classmethod
    def from_agreement(
        cls, _agreement: object, plan: DampeningSettings, rounds: StageBuilder
    ) -> Self:
        """Build the method from its settings."""
        recover = rounds(plan.recover, "recover")
        fisher_task = replace(recover.task, aim="fisher")
        return cls(fisher_task, recover, plan.ratio, plan.strength)

    def tasks(self) -> list[LocalTask]:
        """Return also the report of the Fisher information."""
        return [*self.planned_tasks(), self.fisher_task]

    def count(self, _run: HorizontalRun) -> int:
        """Return 1."""
        return 1

    def init(self, run: HorizontalRun) -> ModelState:
        """Start from the original model."""
        return ModelState(run.original)

    def step(
        self, run: HorizontalRun, state: ModelState, k: int
    ) -> tuple[ModelState, StepRecord] | Stop:
        """Dampen the parameters."""
        if k:
            return Stop()
        slots, dtype = {"model": state.model}, state.model.dtype
        own = run.mean_update(run.leaving, self.fisher_task, slots).delta.to(dtype)
        others = run.mean_update(run.remaining, self.fisher_task, slots).delta.to(dtype)
        model = dampen_parameters(state.model, own, others, self.ratio, self.strength)
        return ModelState(model), run.finish_round(RoundRecord("unlearn", k, model))

    def recovery(self, _run: HorizontalRun, state: ModelState) -> Recovery:
        """Return the rounds of recovery."""
        return Recovery(self.recover, TrainedState(state.model))
