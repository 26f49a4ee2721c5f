"""Methods whose steps are epochs of training; they differ in start model, rows and labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.table import Count, Positive
from configs.unlearning import MethodSettings
from parties.requests.driver import JsonObject, MethodDefaults, StepRecord, StepResult, Stop
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import ShrinkShares, VerticalRun, train_epoch
from protocol import vfl_pb2


class EpochSettings(MethodSettings):
    """Settings of a method of epochs."""

    learning_rate: Positive = 1e-3
    epochs: Count = 2


@dataclass(frozen=True, slots=True)
class EpochState:
    """The state of a method of epochs; the parameters are all that changes."""


class EpochMethod(MethodDefaults):
    """A method of epochs; a subclass may give another start model, other rows or other labels."""

    name: ClassVar[str]
    state: ClassVar[type[EpochState]] = EpochState
    rows: ClassVar[vfl_pb2.Rows] = vfl_pb2.RETAIN
    only_top: ClassVar[bool] = False  # whether only the top model is trained

    def plan(self, run: VerticalRun) -> EpochSettings:
        """The settings of the method."""
        return run.settings(cast(type[EpochSettings], self.settings))

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training from the original model, perhaps moved towards fresh values."""
        plan = agreement.unlearning.of(cast(type[EpochSettings], self.settings))
        shrinks = tuple(each.pair for each in self.shrinks(plan))
        return Orders.of_training(agreement, plan.learning_rate, plan.epochs, shrinks)

    def shrinks(self, _plan: Any) -> tuple[ShrinkShares, ...]:
        """How far the start model moves towards fresh values; empty: it does not move."""
        return ()

    def slot(self, _plan: Any) -> str:
        """The name of the copy from which the method starts."""
        return ORIGINAL

    def prepare(self, run: VerticalRun) -> None:
        """Start from a copy of the model, with a new optimiser and a separate batch order."""
        rate = self.plan(run).learning_rate
        rule = UpdateRule.like_training(run.agreement.training, rate)
        run.start(self.slot(self.plan(run)), self.name, rule)
        for shares in self.shrinks(self.plan(run)):
            run.shrink(shares, self.name)

    def labels(self, _run: VerticalRun) -> Tensor | None:
        """Labels that replace the true labels, [N, common_rows]; None for the true labels."""
        return None

    def count(self, run: VerticalRun) -> int:
        """The number of batches of all epochs."""
        size = run.agreement.training.batch
        return self.plan(run).epochs * -(-run.row_count(self.rows) // size)

    def init(self, run: VerticalRun) -> EpochState:
        """Prepare the model that is trained."""
        self.prepare(run)
        return EpochState()

    def step(self, run: VerticalRun, state: EpochState, k: int) -> StepResult[EpochState]:
        """Train one epoch."""
        if k == self.plan(run).epochs:
            return Stop()
        loss = train_epoch(run, self.rows, k + 1, self.labels(run), only_top=self.only_top)
        return state, StepRecord({"epoch": k + 1, "loss": loss}, good=not self.only_top)

    def finish(
        self, _run: VerticalRun, _state: EpochState, records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Return the loss of each epoch."""
        unknown = {"validation_loss": None, "validation_accuracy": None}
        epochs = [each | unknown for each in records]
        return MethodResult({"epochs": epochs}, stopped=stop.reason)
