"""Short Retrain, an exact method: a fresh model, trained on D_r for a fraction of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import ClassVar

from configs.agreement import VerticalAgreement
from configs.table import Fraction, Positive
from configs.unlearning import MethodSettings
from parties.common.errors import Diverged
from parties.report.method_names import Label
from parties.requests.driver import (
    JsonObject,
    MethodDefaults,
    StepRecord,
    StepResult,
    Stop,
)
from parties.vertical.engine.optimiser import UpdateRule, cosine, embedding_passes
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import RateSchedule, VerticalRun, train_epoch
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


class ShortRetrainSettings(MethodSettings):
    """Short Retrain: training from scratch with small batches, on few rows."""

    # Rows that are used, with repetition, as a fraction of those of all training epochs. With
    # training.start = "local": of the rows whose embeddings the training sends.
    rows: Fraction = 0.1
    batch: Fraction = 0.25  # rows of a step, as a fraction of training.batch
    rate: Positive = 2.5  # first learning rate, as a multiple of the training's
    # Last learning rate, as a fraction of the first one; it falls as a cosine.
    floor: Fraction = 0.05


@dataclass(frozen=True, slots=True)
class ShortRetrainState:
    """The state of the method; the parameters are all that changes."""


class ShortRetrainMethod(MethodDefaults):
    """A fresh model, trained on D_r with small batches; no step reads a forgotten row.

    Every comparison of methods needs this method: it is exact, and uses a tenth of Retrain's rows.
    """

    name: ClassVar = "short-retrain"
    label: ClassVar = Label("Short Retrain", "trained from scratch on a fraction of the rows")
    guarantee: ClassVar = Guarantee.EXACT
    settings: ClassVar = ShortRetrainSettings
    corrects: ClassVar = True
    fresh: ClassVar = True
    state: ClassVar = ShortRetrainState

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training of a fresh model on D_r in small batches."""
        size = _batch(agreement)
        epochs = ceil(_plan(agreement).rows * embedding_passes(agreement)) + 1
        sizes = [size] if agreement.training.overlap != "microbatch" else [size, size // 2]
        batches = tuple((each, epochs) for each in sizes if each)
        return Orders(fresh=((_rule(agreement), None),), batches=batches, scales=True)

    def count(self, run: VerticalRun) -> int:
        """The number of optimiser steps."""
        rows = _plan(run.agreement).rows * embedding_passes(run.agreement)
        return ceil(rows * run.row_count(vfl_pb2.RETAIN) / _batch(run.agreement))

    def init(self, run: VerticalRun) -> ShortRetrainState:
        """Initialise all parties' parts of the model."""
        run.initialise(self.name, vfl_pb2.RETAIN, _rule(run.agreement))
        return ShortRetrainState()

    def step(
        self, run: VerticalRun, state: ShortRetrainState, k: int
    ) -> StepResult[ShortRetrainState]:
        """Train one epoch, or the first part of an epoch.

        Raises:
            Diverged: a number is not finite; the model with the forgotten rows is not restored.
        """
        agreement, steps, size = run.agreement, self.count(run), _batch(run.agreement)
        begun = k * ceil(run.row_count(vfl_pb2.RETAIN) / size)
        if begun >= steps:
            return Stop()
        floor = _plan(agreement).floor
        loss = train_epoch(
            run,
            vfl_pb2.RETAIN,
            k + 1,
            size=size,
            schedule=RateSchedule(begun, steps, lambda step: cosine(step, steps, floor)),
        )
        run.verify()
        if not run.finite:
            raise Diverged(
                "short retrain: the loss, a gradient or a parameter is not finite",
                "lower unlearning.short_retrain.rate",
            )
        return state, StepRecord({"epoch": k + 1, "loss": loss}, good=False)

    def finish(
        self,
        _run: VerticalRun,
        _state: ShortRetrainState,
        records: Sequence[JsonObject],
        stop: Stop,
    ) -> MethodResult:
        """Return the loss of each epoch."""
        unknown = {"validation_loss": None, "validation_accuracy": None}
        return MethodResult({"epochs": [each | unknown for each in records]}, stopped=stop.reason)


def _plan(agreement: VerticalAgreement) -> ShortRetrainSettings:
    return agreement.unlearning.of(ShortRetrainSettings)


def _batch(agreement: VerticalAgreement) -> int:
    return max(1, round(_plan(agreement).batch * agreement.training.batch))


def _rule(agreement: VerticalAgreement) -> UpdateRule:
    """The training's update rule, with another learning rate."""
    training = agreement.training
    return UpdateRule.like_training(training, _plan(agreement).rate * training.learning_rate)
