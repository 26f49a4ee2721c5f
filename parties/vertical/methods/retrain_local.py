"""Retrain with a local start: an exact method that sends few embeddings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from configs.agreement import KEEP, VerticalAgreement, require_local_start
from configs.local_start import LocalStartSettings
from configs.unlearning import MethodSettings
from parties.report.method_names import Label
from parties.requests.driver import JsonObject, MethodDefaults, StepRecord, StepResult, Stop
from parties.vertical.methods.local_start import LocalStart
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.orders import Orders
from parties.vertical.methods.run import VerticalRun
from protocol import vfl_pb2
from unlearning.guarantee import Guarantee


class RetrainLocalSettings(LocalStartSettings, MethodSettings):
    """Retrain with a local start; the keys are those of [training.local]."""

    def check(self, agreement: Any) -> None:
        """Check that the models can have a local start.

        Raises:
            ValueError: the optimiser, the top model or the privacy settings do not allow it, or
                the bottom models are never trained.
        """
        require_local_start(agreement, "the method retrain-local")
        if agreement.keeps_embeddings and self.codes != "fixed":
            raise ValueError(
                f"with {KEEP} no bottom model is trained: set unlearning.retrain_local.codes = "
                "'fixed'"
            )


@dataclass(frozen=True, slots=True)
class RetrainLocalState:
    """The state of the method; the parameters are all that changes."""


class RetrainLocalMethod(MethodDefaults):
    """A fresh model, trained on D_r with a local start; no step reads a forgotten row."""

    name: ClassVar = "retrain-local"
    label: ClassVar = Label(
        "Retrain, local start", "trained from scratch, first by each party alone"
    )
    guarantee: ClassVar = Guarantee.EXACT
    settings: ClassVar = RetrainLocalSettings
    corrects: ClassVar = True
    fresh: ClassVar = True
    state: ClassVar = RetrainLocalState

    def orders(self, agreement: VerticalAgreement) -> Orders:
        """Training of a fresh model on D_r with a local start."""
        return Orders.of_local_start(agreement, agreement.unlearning.of(RetrainLocalSettings))

    def count(self, run: VerticalRun) -> int:
        """The number of optimiser steps of all phases."""
        return self._training(run).steps

    def init(self, run: VerticalRun) -> RetrainLocalState:
        """Initialise all parties' parts of the model."""
        self._training(run).begin()
        return RetrainLocalState()

    def step(
        self, run: VerticalRun, state: RetrainLocalState, k: int
    ) -> StepResult[RetrainLocalState]:
        """Carry out one epoch.

        Raises:
            Diverged: a number is not finite; the model with the forgotten rows is not restored.
        """
        training = self._training(run)
        if k == training.epochs:
            return Stop()
        phase, loss = training.epoch(k)
        return state, StepRecord({"phase": phase.name, "loss": loss}, good=False)

    def finish(
        self,
        _run: VerticalRun,
        _state: RetrainLocalState,
        records: Sequence[JsonObject],
        stop: Stop,
    ) -> MethodResult:
        """Return the loss of each epoch that has one."""
        losses = [each["loss"] for each in records if each["loss"] is not None]
        unknown = {"validation_loss": None, "validation_accuracy": None}
        epochs = [{"epoch": n, "loss": loss} | unknown for n, loss in enumerate(losses, 1)]
        return MethodResult({"epochs": epochs}, stopped=stop.reason)

    def _training(self, run: VerticalRun) -> LocalStart:
        return LocalStart(run, run.settings(RetrainLocalSettings), vfl_pb2.RETAIN, self.name)
