"""FedOSD: unlearning steps orthogonal to the remaining clients' gradients, then recovery.

Notation of paper 001: ω = the model; ω⁰ = the original model; g_u = the leaving clients'
pseudo-gradient of the unlearning loss; g_i = the pseudo-gradients of the remaining clients; d = the
direction of the step; η = the learning rate. The variants are the ablations of the paper (Table 5).
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self, TypeAlias

import torch
from torch import Tensor

from configs.client_unlearning import ClientMethodSettings, Reads, StageSettings
from parties.horizontal.engine.cohort import pseudo_gradients, quorum_updates
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import Aim, LocalTask
from parties.horizontal.methods.method import ModelState, StagedMethod, Stages
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.report.method_names import Label
from parties.requests.driver import StepRecord, StepResult
from unlearning.horizontal.fedosd import (
    Projection,
    client_cosines,
    common_descent,
    orthogonal_steepest_descent,
    project_recovery,
)

# The algorithm, and the ablations M1, M2 and M3 of the paper.
Variant: TypeAlias = Literal["full", "ascent", "no-orthogonal", "common-descent"]


class FedOsdSettings(ClientMethodSettings):
    """FedOSD (arXiv 2412.20200)."""

    unlearn: StageSettings = StageSettings(rounds=100)  # rounds that unlearn
    recover: StageSettings = StageSettings(rounds=100)  # rounds of recovery
    # Which gradients of the recovery are projected; a projected gradient does not undo the
    # unlearning. conditional: only gradients that would undo the unlearning. always: all
    # gradients. none: no gradient.
    project: Projection = "conditional"
    # Ablation. full: the whole method. ascent: gradient ascent instead of the unlearning loss.
    # no-orthogonal: without the orthogonality condition. common-descent: with a common descent
    # direction.
    variant: Variant = "full"


@dataclass(frozen=True, slots=True)
class FedOsd(StagedMethod[ModelState]):
    """Algorithm 1 of the FedOSD paper: unlearning, then recovery."""

    unlearn: RoundPlan  # rounds of unlearning; the learning rate of the local task is η
    recover: RoundPlan  # rounds of recovery
    plan: FedOsdSettings = field(default_factory=FedOsdSettings)  # the other settings
    name: str = "fedosd"
    label: ClassVar = Label("FedOSD", "steepest direction that conflicts with no remaining client")
    settings: ClassVar = FedOsdSettings
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: FedOsdSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        unlearn = rounds(plan.unlearn, "unlearn")
        return cls(unlearn, rounds(plan.recover, "recover"), plan)

    def tasks(self) -> list[LocalTask]:
        """Return also the task of the leaving clients."""
        return [*self.planned_tasks(), replace(self.unlearn.task, aim=self._aim)]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of unlearning."""
        return self.unlearn.rounds

    def round(self, run: HorizontalRun, state: ModelState, k: int) -> StepResult[ModelState]:
        """Run one round of unlearning."""
        done = self._round(run, state.model, k)
        return ModelState(done.model), run.finish_round(done)

    def recovery(self, _run: HorizontalRun, state: ModelState) -> Recovery:
        """Return the rounds of recovery with projected gradients."""
        return ProjectedRecovery(
            self.recover, TrainedState(state.model), projection=self.plan.project
        )

    @property
    def _aim(self) -> Aim:
        """The aim of the leaving clients."""
        # M1 maximises the plain cross entropy, which has no bound: the ablation shows its effect.
        return "elastic" if self.plan.variant == "ascent" else "unlearning-loss"

    def _round(self, run: HorizontalRun, model: Tensor, number: int) -> RoundRecord:
        task, slots = self.unlearn.task_at(number), {"model": model}
        remaining = dict(quorum_updates(run, run.remaining, task, slots))
        leaving = dict(run.updates(run.leaving, replace(task, aim=self._aim), slots))
        loss = sum(each.loss for each in remaining.values()) / max(1, len(remaining))
        if not leaving:
            return RoundRecord("unlearn", number, model, loss, skipped=True)
        others, own = pseudo_gradients(remaining, task), pseudo_gradients(leaving, task)
        weights = torch.tensor([each.rows for each in leaving.values()], dtype=own.dtype)
        direction = self._direction((weights / weights.sum()) @ own, others)
        if direction is None:
            return RoundRecord("unlearn", number, model, loss, skipped=True)
        # FedOSD (paper 001) Alg 1, line 8: ω ← ω − η d.
        after = model - task.learning_rate * direction
        cosines = client_cosines(others, direction)
        conflicts, cosine = int((cosines < -1e-6).sum()), float(cosines.abs().max())
        return RoundRecord("unlearn", number, after, loss, conflicts, cosine)

    def _direction(self, own: Tensor, others: Tensor) -> Tensor | None:
        """The direction to subtract, ``[d]``; None if every direction has a conflict."""
        match self.plan.variant:
            case "no-orthogonal":
                return own
            case "common-descent":
                return common_descent(torch.cat([others, own[None]]))
            case _:
                return orthogonal_steepest_descent(own, others).direction


@dataclass(frozen=True, slots=True)
class ProjectedRecovery(Recovery):
    """FedOSD's recovery: projected updates do not move the model back to the original model.

    All clients have the same weight.
    """

    projection: Projection = "conditional"  # rule that selects the gradients to project

    def train(
        self, run: HorizontalRun, state: TrainedState, number: int
    ) -> tuple[TrainedState, StepRecord]:
        """Return the state after round ``number``, and the record of the round."""
        task, model = self.round_plan.task_at(number), state.model
        away, total, loss, count = model - run.original, torch.zeros_like(model), 0.0, 0
        for _, found in quorum_updates(run, run.remaining, task, {"model": model}):
            total += project_recovery(found.delta / -task.learning_rate, away, self.projection)
            loss, count = loss + found.loss, count + 1
        model = model - task.learning_rate * total / count
        record = run.finish_round(RoundRecord("recover", number, model, loss / count))
        return TrainedState(model), record
