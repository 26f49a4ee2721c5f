"""Methods whose steps are epochs of training; they differ in start model, rows and labels."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from configs.agreement import VerticalAgreement
from configs.unlearning import MethodSettings
from parties.requests.driver import NOTHING, JsonObject, Needs, StepRecord, Stop
from parties.vertical.engine.training_loop import ACCUMULATE, DESCEND
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import Batch, Loss, VerticalRun
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class EpochState:
    """The state of a method of epochs; the parameters are all that changes."""


class EpochMethod(ABC):
    """A method of epochs; a subclass prepares the start model and gives rows and labels."""

    name: ClassVar[str]
    settings: ClassVar[type[MethodSettings]]
    guarantee: ClassVar[Guarantee] = Guarantee.HEURISTIC
    state: ClassVar[type[EpochState]] = EpochState
    rows: ClassVar[vfl_pb2.Rows] = vfl_pb2.RETAIN
    only_top: ClassVar[bool] = False  # whether only the top model is trained

    def needs(self, _agreement: VerticalAgreement) -> Needs:
        """Nothing."""
        return NOTHING

    @abstractmethod
    def orders(self, agreement: VerticalAgreement) -> Orders:
        """What the method may order the passive parties to do."""

    @abstractmethod
    def epochs(self, run: VerticalRun) -> int:
        """The number of epochs."""

    @abstractmethod
    def prepare(self, run: VerticalRun) -> None:
        """Prepare the model that is trained."""

    def labels(self, _run: VerticalRun) -> Tensor | None:
        """Labels that replace the true labels, [N, common_rows]; None for the true labels."""
        return None

    def count(self, run: VerticalRun) -> int:
        """The number of batches of all epochs."""
        size = run.agreement.training.batch
        return self.epochs(run) * -(-run.row_count(self.rows) // size)

    def init(self, run: VerticalRun) -> EpochState:
        """Prepare the model that is trained."""
        self.prepare(run)
        return EpochState()

    def step(
        self, run: VerticalRun, state: EpochState, k: int
    ) -> tuple[EpochState, StepRecord] | Stop:
        """Train one epoch."""
        if k == self.epochs(run):
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


def train_epoch(
    run: VerticalRun,
    rows: vfl_pb2.Rows,
    number: int,
    labels: Tensor | None = None,
    size: int | None = None,
    *,
    only_top: bool = False,
) -> float:
    """Train all models for one epoch, and return the mean loss.

    Args:
        run: the models.
        rows: the row set.
        number: number of the epoch, from 1.
        labels: [N, common_rows], labels that replace the true labels.
        size: rows of a batch; None for the batch size of the training.
        only_top: whether only the top models are trained.
    """
    losses: list[tuple[float, int]] = []

    def descend(batch: Batch) -> Loss:
        loss = batch.cross_entropy(None if labels is None else labels.gather(1, batch.rows))
        losses.append((loss.detach().mean().item(), batch.rows.shape[1]))
        if batch.share < 1:
            loss = loss * batch.share
        return Loss(loss, DESCEND if batch.last else ACCUMULATE)

    size = size or run.agreement.training.batch
    run.run_epoch(rows, number, size, descend, only_top=only_top)
    return sum(value * rows for value, rows in losses) / max(1, sum(rows for _, rows in losses))
