"""A method similar to AdaClipping: dampen parameters that matter mostly for the leaving client."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from configs.client_unlearning import ClientMethodSettings, Reads, StageSettings
from configs.table import Positive
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.method import ModelState, StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import StepResult
from unlearning.horizontal.baselines import dampen_parameters


class DampeningSettings(ClientMethodSettings):
    """Method adaclipping-like: shrinks the parameters that matter most for the forgotten rows."""

    recover: StageSettings = StageSettings()  # rounds of recovery
    # A parameter is dampened if its Fisher information on the forgotten rows is more than this
    # factor times its Fisher information on the remaining rows.
    ratio: Positive = 10.0
    strength: Positive = 1.0  # strength λ of the dampening


@dataclass(frozen=True, slots=True)
class AdaClipping(StagedMethod[ModelState]):
    """The server dampens parameters in one step; then the remaining clients run recovery."""

    fisher_task: LocalTask  # the local task that reports Fisher information
    recover: RoundPlan  # rounds of recovery
    plan: DampeningSettings = field(default_factory=DampeningSettings)  # the other settings
    name: str = "adaclipping-like"
    label: ClassVar = Label("AdaClipping-like", "parameters dampened that the client needs most")
    settings: ClassVar = DampeningSettings
    reads: ClassVar[Reads] = "leaving update"

    @classmethod
    def from_settings(cls, plan: DampeningSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        recover = rounds(plan.recover, "recover")
        fisher_task = replace(recover.task, aim="fisher")
        return cls(fisher_task, recover, plan)

    def tasks(self) -> list[LocalTask]:
        """Return also the report of the Fisher information."""
        return [*self.planned_tasks(), self.fisher_task]

    def count(self, _run: HorizontalRun) -> int:
        """Return 1."""
        return 1

    def round(self, run: HorizontalRun, state: ModelState, k: int) -> StepResult[ModelState]:
        """Dampen the parameters."""
        slots, dtype = {"model": state.model}, state.model.dtype
        own = run.mean_update(run.leaving, self.fisher_task, slots).delta.to(dtype)
        others = run.mean_update(run.remaining, self.fisher_task, slots).delta.to(dtype)
        model = dampen_parameters(state.model, own, others, self.plan.ratio, self.plan.strength)
        return ModelState(model), run.finish_round(RoundRecord("unlearn", k, model))
