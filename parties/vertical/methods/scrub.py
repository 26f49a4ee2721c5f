"""SCRUB, a baseline: a student leaves the teacher on D_u and follows the teacher on D_r.

Notation of SCRUB (Kurmanji et al., NeurIPS 2023, arXiv 2302.09880): teacher = the original model,
student = the model that is trained, starting from the teacher; d(x) = KL divergence of the
student's prediction from the teacher's, at temperature T.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import kl_div, log_softmax

from configs.agreement import VerticalAgreement
from configs.table import Count, Positive
from configs.unlearning import MethodSettings
from parties.report.method_names import Label
from parties.requests.driver import (
    JsonObject,
    MethodDefaults,
    StepRecord,
    StepResult,
    Stop,
)
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.training_loop import DESCEND
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import Act, Batch, Loss, VerticalRun
from protocol import vfl_pb2


class ScrubSettings(MethodSettings):
    """Baseline SCRUB: leave the trained model's predictions on the forgotten rows only."""

    learning_rate: Positive = 5e-4
    epochs: Count = 5  # epochs over D_r, the remaining rows
    # Number of these epochs, from the first, that begin with an epoch over D_u, the forgotten rows;
    # 0 switches the forgetting off.
    forget_epochs: Annotated[int, Field(ge=0, lt=2**31)] = 3
    alpha: Annotated[float, Field(ge=0)] = 0.5  # weight of the divergence on D_r
    gamma: Positive = 1.0  # weight of the cross entropy on D_r
    temperature: Positive = 2.0  # temperature T of the predictions that are compared


@dataclass(frozen=True, slots=True)
class ScrubState:
    """The teacher, which does not change; lists have one entry per model."""

    forgotten: list[Tensor]  # [forgotten, classes], the teacher's logits on D_u
    retained: list[Tensor]  # [retained, classes], the teacher's logits on D_r


class ScrubMethod(MethodDefaults):
    """SCRUB, a heuristic: nothing bounds what the student still reveals about D_u."""

    name: ClassVar = "scrub"
    only_classes: ClassVar = "it compares class probabilities"
    label: ClassVar = Label(
        "SCRUB", "away from the original on forgotten rows, close to it on the others"
    )
    settings: ClassVar = ScrubSettings
    state: ClassVar = ScrubState

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training from the original model."""
        plan = agreement.unlearning.of(ScrubSettings)
        return Orders.of_training(agreement, plan.learning_rate, plan.epochs)

    def count(self, run: VerticalRun) -> int:
        """The number of batches."""
        plan, size = run.settings(ScrubSettings), run.agreement.training.batch
        forget, retain = (
            -(-run.row_count(rows) // size) for rows in (vfl_pb2.FORGOTTEN, vfl_pb2.RETAIN)
        )
        return min(plan.forget_epochs, plan.epochs) * forget + plan.epochs * retain

    def init(self, run: VerticalRun) -> ScrubState:
        """Read the teacher's predictions, and let the student start from the teacher."""
        rate = run.settings(ScrubSettings).learning_rate
        run.start(ORIGINAL, self.name, UpdateRule.like_training(run.agreement.training, rate))
        return ScrubState(run.logits(vfl_pb2.FORGOTTEN), run.logits(vfl_pb2.RETAIN))

    def step(self, run: VerticalRun, state: ScrubState, k: int) -> StepResult[ScrubState]:
        """Train one epoch: first up on D_u, if it is one of the first epochs, then down on D_r."""
        plan, size, losses = run.settings(ScrubSettings), run.agreement.training.batch, [0.0]
        if k == plan.epochs:
            return Stop()

        def leave(batch: Batch) -> Loss:
            # SCRUB Eq. 3, first part: maximise d(x) over D_u.
            return Loss(-self._divergence(run, batch, state.forgotten), DESCEND)

        def follow(batch: Batch) -> Loss:
            # SCRUB Eq. 3, second part: minimise α d(x) + γ CE over D_r.
            loss = plan.gamma * batch.loss()
            loss = loss + plan.alpha * self._divergence(run, batch, state.retained)
            losses.append(loss.detach().mean().item())
            return Loss(loss, DESCEND)

        if k < plan.forget_epochs:
            _run_epoch(run, vfl_pb2.FORGOTTEN, k + 1, size, leave)
        _run_epoch(run, vfl_pb2.RETAIN, k + 1, size, follow)
        mean = sum(losses) / max(1, len(losses) - 1)
        return state, StepRecord({"epoch": k + 1, "loss": mean})

    def finish(
        self, _run: VerticalRun, _state: ScrubState, records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Return the loss of each epoch over D_r."""
        unknown = {"validation_loss": None, "validation_accuracy": None}
        return MethodResult({"epochs": [each | unknown for each in records]}, stopped=stop.reason)

    def _divergence(self, run: VerticalRun, batch: Batch, teacher: Sequence[Tensor]) -> Tensor:
        """The mean of d(x) over a batch, times T², of each model, [N]."""
        warm = run.settings(ScrubSettings).temperature
        rows = batch.request.rows
        places = [
            np.searchsorted(sets.select(rows), own.numpy())
            for sets, own in zip(run.sets, batch.rows, strict=True)
        ]
        truth = torch.stack([each[at] for each, at in zip(teacher, places, strict=True)])
        ours = log_softmax(batch.logits / warm, dim=2)
        each = kl_div(ours, log_softmax(truth / warm, dim=2), reduction="none", log_target=True)
        return batch.sums(each.sum(dim=2).flatten()) * warm**2 / batch.rows.shape[1]


def _run_epoch(run: VerticalRun, rows: vfl_pb2.Rows, epoch: int, size: int, act: Act) -> None:
    """One shuffled epoch in whole batches, because the divergence needs no micro-batches."""
    run.run_batches(run.epoch_requests(rows, epoch, size), act)
