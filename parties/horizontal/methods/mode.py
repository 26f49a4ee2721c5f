"""MoDe: rounds of erasure by a degradation model alternate with rounds of guidance.

Notation as in ``unlearning.horizontal.baselines``. The remaining clients train the degradation
model from random weights. In a round of guidance the leaving client trains with the predictions of
the degradation model instead of labels, and the remaining clients train with true labels.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from torch import Tensor

from configs.client_unlearning import ClientMethodSettings, Reads, StageSettings
from configs.horizontal import HorizontalAgreement
from configs.table import Fraction
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.method import StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import StepResult
from unlearning.horizontal.baselines import mode_erasure


@dataclass(frozen=True, slots=True)
class MoDeState:
    """The state of MoDe."""

    model: Tensor  # the model, ``[d]``
    degraded: Tensor  # the degradation model, ``[d]``


class MoDeSettings(ClientMethodSettings):
    """MoDe (Zhao et al. 2023): in rounds of erasure, averages the model with a second model M_d."""

    # Rounds of erasure, which train the degradation model M_d and mix M_d into the model.
    degrade: StageSettings = StageSettings(rounds=20)
    guide: StageSettings = StageSettings(rounds=20)  # rounds of guidance, one after each erasure
    recover: StageSettings = StageSettings()  # rounds of recovery
    momentum: Fraction = 0.95  # weight λ of the old model in the mixture with M_d

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that clients can train a second model.

        Raises:
            ValueError: a client has only one set of personal parameters.
        """
        agreement.require_second_model("mode")


@dataclass(frozen=True, slots=True)
class MoDe(StagedMethod[MoDeState]):
    """Runs rounds of erasure and rounds of guidance in turn, then recovery."""

    # Plan of the erasure rounds; each round trains the degradation model, and replaces the current
    # model with a weighted mean of the current model and the degradation model.
    degrade: RoundPlan
    # Plan of the guidance rounds; a guidance round follows each erasure round. If the numbers of
    # rounds differ, the remaining rounds of one kind run without the other kind.
    guide: RoundPlan
    recover: RoundPlan  # plan of the recovery rounds
    plan: MoDeSettings = field(default_factory=MoDeSettings)  # the other settings
    name: str = "mode"
    label: ClassVar = Label("MoDe", "a degraded model mixed in, then guidance")
    settings: ClassVar = MoDeSettings
    reads: ClassVar[Reads] = "leaving update"
    state: ClassVar[type[MoDeState]] = MoDeState

    @classmethod
    def from_settings(cls, plan: MoDeSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        degrade, guide = rounds(plan.degrade, "degrade"), rounds(plan.guide, "guide")
        return cls(degrade, guide, rounds(plan.recover, "recover"), plan)

    def tasks(self) -> list[LocalTask]:
        """Return also the task of the leaving clients."""
        return [*self.planned_tasks(), replace(self.guide.task, aim="pseudo-labels")]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of erasure or of guidance, whichever is larger."""
        return max(self.degrade.rounds, self.guide.rounds)

    def init(self, run: HorizontalRun) -> MoDeState:
        """Start from the original model, and from a degradation model with random weights."""
        return MoDeState(run.original, run.initial_model(self.name))

    def round(self, run: HorizontalRun, state: MoDeState, k: int) -> StepResult[MoDeState]:
        """Run one round of erasure and one round of guidance."""
        model, degraded, loss = state.model, state.degraded, None
        if k < self.degrade.rounds:
            task = self.degrade.task_at(k)
            update = run.mean_update(run.remaining, task, {"model": degraded})
            degraded = degraded + update.delta.to(degraded.dtype)
            model = mode_erasure(model, degraded, self.plan.momentum)
        if k < self.guide.rounds:
            model, loss = self._guided(run, model, degraded, self.guide.task_at(k))
        record = run.finish_round(RoundRecord("unlearn", k, model, loss))
        return MoDeState(model, degraded), record

    def _guided(
        self, run: HorizontalRun, model: Tensor, degraded: Tensor, task: LocalTask
    ) -> tuple[Tensor, float]:
        """The model after a round of guidance, ``[d]``, and the loss of the remaining clients."""
        pseudo_label_task = replace(task, aim="pseudo-labels")
        leaving = run.mean_update(
            run.leaving, pseudo_label_task, {"model": model, "teacher": degraded}
        )
        remaining = run.mean_update(run.remaining, task, {"model": model})
        rows = leaving.rows + remaining.rows
        change = (leaving.rows * leaving.delta + remaining.rows * remaining.delta) / rows
        return model + change.to(model.dtype), remaining.loss
