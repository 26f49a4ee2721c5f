"""FedForget: two teachers guide the leaving client; its update has extra weight in the mean.

Notation as in ``unlearning.horizontal.fedforget``. The default is the algorithm as printed in the
paper (mode ``literal``). In this mode both teachers were trained on the rows that must be
forgotten, so the model forgets little. In the mode ``clean_teacher``, the remaining clients train
teacher B from random weights, so teacher B was never trained on these rows. The training of teacher
B is part of the method's cost.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from configs.client_unlearning import ClientMethodSettings, Reads, StageSettings
from configs.horizontal import HorizontalAgreement
from configs.table import Fraction, Positive
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.method import StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import StepRecord, StepResult
from unlearning.horizontal.fedforget import TeacherMode, client_weights, leaving_client_factor


@dataclass(frozen=True, slots=True)
class FedForgetState:
    """The state of FedForget."""

    model: Tensor  # the model, ``[d]``
    second: Tensor | None  # teacher B, ``[d]``; None if the mode has no teacher B


class FedForgetSettings(ClientMethodSettings):
    """FedForget: distillation with two teachers at the leaving client."""

    distil: StageSettings = StageSettings(rounds=10)  # rounds of distillation
    # Rounds that train teacher B; with mode = "clean_teacher" the training starts from random
    # weights.
    teacher_b: StageSettings = StageSettings()
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery
    # Loss and teacher B. literal: the loss as printed in the paper, with a teacher that was trained
    # on the forgotten rows; it forgets little. repel: the loss of the authors' code. clean_teacher:
    # a teacher that was trained without the forgotten rows. bad_teacher: a teacher with random
    # weights. ga: gradient ascent without teacher B.
    mode: TeacherMode = "literal"
    # Weight α of teacher A, the trained model; unused with mode = "bad_teacher".
    weight_a: Positive = 0.93
    weight_b: Positive = 0.245  # weight of teacher B
    leaving_factor: Positive = 2.0  # factor λ₀ of the leaving client's weight in the first round
    decay: Positive = 0.3  # decay β of leaving_factor per round
    max_weight: Fraction = 0.5  # largest weight of the leaving client in the mean update
    temperature: Positive = 2.0  # τ of the predictions

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that clients can train a second model.

        Raises:
            ValueError: a client has only one set of personal parameters.
        """
        agreement.require_second_model("fedforget")


@dataclass(frozen=True, slots=True)
class FedForget(StagedMethod[FedForgetState]):
    """Runs rounds with all clients, in which teachers guide the leaving client; then recovery."""

    distil: RoundPlan  # rounds with all clients
    # Rounds that train teacher B, either by the remaining clients from random weights or by the
    # leaving client alone from the original model.
    teacher_b: RoundPlan
    recover: RoundPlan  # rounds of recovery
    plan: FedForgetSettings = field(default_factory=FedForgetSettings)  # the other settings
    name: str = "fedforget"
    label: ClassVar = Label("FedForget", "two teachers, with a decaying weight in the mean")
    settings: ClassVar = FedForgetSettings
    state: ClassVar[type[FedForgetState]] = FedForgetState
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: FedForgetSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        distil, teacher_b = rounds(plan.distil, "teach"), rounds(plan.teacher_b, "second")
        return cls(distil, teacher_b, rounds(plan.recover, "recover"), plan)

    def tasks(self) -> list[LocalTask]:
        """Return also the task of the leaving clients."""
        return [*self.planned_tasks(), self._taught_by_teachers(self.distil.task)]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds that train teacher B or distil."""
        return self._teacher_rounds + self.distil.rounds

    def init(self, run: HorizontalRun) -> FedForgetState:
        """Start from the original model; teacher B is random or the original model, or absent."""
        match self.plan.mode:
            case "ga":
                second = None
            case "bad_teacher" | "clean_teacher":
                second = run.initial_model(self.name)
            case _:
                second = run.original
        return FedForgetState(run.original, second)

    def round(
        self, run: HorizontalRun, state: FedForgetState, k: int
    ) -> StepResult[FedForgetState]:
        """Train teacher B for one round, or distil for one round."""
        if k < self._teacher_rounds:
            return replace(state, second=self._taught(run, state.second, k)), StepRecord()
        number = k - self._teacher_rounds
        model, loss = self._distilled(run, state, number)
        record = run.finish_round(RoundRecord("unlearn", number, model, loss))
        return replace(state, model=model), record

    @property
    def _teacher_rounds(self) -> int:
        return 0 if self.plan.mode in ("ga", "bad_teacher") else self.teacher_b.rounds

    def _taught(self, run: HorizontalRun, second: Tensor | None, number: int) -> Tensor:
        """Teacher B after one more round of its training, ``[d]``."""
        model = run.original if second is None else second
        members = run.remaining if self.plan.mode == "clean_teacher" else run.leaving
        mean = run.mean_update(members, self.teacher_b.task_at(number), {"model": model})
        run.progress.step()
        return model + mean.delta.to(torch.float32)

    def _taught_by_teachers(self, task: LocalTask) -> LocalTask:
        weight_a = 0.0 if self.plan.mode == "bad_teacher" else self.plan.weight_a
        return replace(
            task, aim="teachers", teacher_mode=self.plan.mode,
            teacher_weights=(weight_a, self.plan.weight_b), temperature=self.plan.temperature,
        )  # fmt: skip

    def _distilled(
        self, run: HorizontalRun, state: FedForgetState, number: int
    ) -> tuple[Tensor, float]:
        """The model after a round of distillation, ``[d]``, and the remaining clients' loss."""
        task = self.distil.task_at(number)
        teacher_task = self._taught_by_teachers(task)
        slots, teachers = {"model": state.model}, {"teacher": run.original}
        if state.second is not None:
            teachers["second"] = state.second
        leaving = run.mean_update(run.leaving, teacher_task, slots | teachers)
        remaining = run.mean_update(run.remaining, task, slots)
        factor = leaving_client_factor(number, self.plan.leaving_factor, self.plan.decay)
        ours, theirs = client_weights(
            [leaving.rows, remaining.rows], 0, factor, self.plan.max_weight
        )
        change = ours * leaving.delta + theirs * remaining.delta
        return state.model + change.to(state.model.dtype), remaining.loss
