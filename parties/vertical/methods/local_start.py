"""Training with a local start: local fits, a top model on sent embeddings, few joint epochs.

1. Every party alone fits a fresh bottom model to codes of its own rows (``models/codes.py``).
2. The embeddings of all rows are sent once, and the active party fits a fresh top model to them.
3. All parties train together for few epochs, with small batches and a falling learning rate.

For n rows and m joint epochs, (1 + m) n embeddings are sent; ordinary training sends n per epoch.
"""

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Literal

from configs.local_start import LocalStartSettings
from parties.common.errors import Diverged
from parties.vertical.engine.optimiser import (
    UpdateRule,
    fit_rule,
    flat_then_cosine,
    joint_batch,
    joint_epochs,
    joint_rule,
    rising_cosine,
    top_rule,
)
from parties.vertical.engine.party_state import LocalFit
from parties.vertical.methods.run import RateSchedule, VerticalRun, train_epoch
from protocol import vfl_pb2

FIT, TOP, JOINT = "local fit", "top model", "joint training"  # the phases, in this order


@dataclass(frozen=True, slots=True)
class TrainingPhase:
    """A phase of the training with a local start."""

    name: str  # FIT, TOP or JOINT
    epochs: int  # number of epochs; a joint epoch may be the first part of an epoch
    rule: UpdateRule  # the update rule
    batch: int  # rows of a step
    steps: int  # number of steps of all epochs


class LocalStart:
    """The training of a model with a local start, epoch by epoch.

    Attributes:
        phases: the phases that have epochs, in order.
    """

    def __init__(
        self,
        run: VerticalRun,
        plan: LocalStartSettings,
        rows: vfl_pb2.Rows,
        stream: str,
        *,
        fits: bool = True,
    ) -> None:
        """Train on the row set ``rows``; ``stream`` draws weights, codes and batch order.

        Without ``fits`` there is no local fit.
        """
        self._run, self._plan, self._rows, self._stream = run, plan, rows, stream
        self._count = run.row_count(rows)
        self._fit = LocalFit.agreed(plan, run.agreement, self._count)
        training = run.agreement.training
        of_fit = plan.epochs_of_fit(self._count) if fits else 0
        phases = (
            self._phase(FIT, of_fit, fit_rule(plan), training.batch),
            self._phase(TOP, plan.epochs_of_top(self._count), top_rule(plan), training.batch),
            self._phase(
                JOINT,
                joint_epochs(plan, run.agreement),
                joint_rule(plan, run.agreement),
                joint_batch(plan, run.agreement),
            ),
        )
        self.phases = [each for each in phases if each.epochs]

    @property
    def epochs(self) -> int:
        """The number of epochs of all phases."""
        return sum(each.epochs for each in self.phases)

    @property
    def steps(self) -> int:
        """The number of optimiser steps of all phases."""
        return sum(each.steps for each in self.phases)

    def begin(self) -> None:
        """Initialise all parties' parts of the model."""
        self._run.initialise(self._stream, self._rows, self.phases[0].rule)

    def epoch(self, number: int) -> tuple[TrainingPhase, float | None]:
        """Carry out epoch ``number``, from 0, of all phases.

        Returns:
            The phase of the epoch, and the mean loss; None for the loss in the local fit.

        Raises:
            Diverged: a number is not finite.
        """
        phase, within = self._at(number)
        if number and not within:
            self._run.change_rule(phase.rule)
        if phase.name == FIT and self._fit is not None:
            self._run.fit_bottoms(self._rows, self._fit, within + 1)
            return phase, None
        loss = self._descend(phase, within)
        if number == self.epochs - 1:
            self._run.verify()
        if not self._run.finite:
            raise Diverged(
                f"{phase.name}: the loss, a gradient or a parameter is not finite",
                "lower joint_rate or the learning rates of the local start",
            )
        return phase, loss

    def ends(self, name: str, number: int) -> bool:
        """Whether epoch ``number``, from 0, is the last one of the phase ``name``."""
        phase, within = self._at(number)
        return phase.name == name and within == phase.epochs - 1

    def _at(self, number: int) -> tuple[TrainingPhase, int]:
        """The phase of epoch ``number``, and the number of the epoch within its phase."""
        for phase in self.phases:
            if number < phase.epochs:
                return phase, number
            number -= phase.epochs
        raise LookupError("the training has no further epoch")

    def _phase(self, name: str, epochs: float, rule: UpdateRule, batch: int) -> TrainingPhase:
        per_epoch = ceil(self._count / batch)
        steps = ceil(round(epochs * self._count / batch, 6))
        if epochs == int(epochs):
            steps = int(epochs) * per_epoch
        return TrainingPhase(name, ceil(steps / per_epoch), rule, batch, steps)

    def _descend(self, phase: TrainingPhase, within: int) -> float:
        """Train one epoch of ``phase``, from 0; return the mean loss."""
        begun, joint = within * ceil(self._count / phase.batch), phase.name == JOINT

        def factor(step: int) -> float:
            if joint:
                return rising_cosine(
                    step, phase.steps, self._plan.joint_floor, self._plan.joint_rise
                )
            return flat_then_cosine(step, phase.steps)

        return train_epoch(
            self._run,
            self._rows,
            within + 1,
            size=phase.batch,
            only_top=not joint,
            schedule=RateSchedule(begun, phase.steps, factor),
        )


class RedrawnStart(LocalStartSettings):
    """A local start whose codes are the embeddings of the original model; it is not exact."""

    codes: Literal["trained"] = "trained"  # type: ignore[assignment]


def train_local_start(
    run: VerticalRun, plan: LocalStartSettings, stream: str, last: str = JOINT
) -> None:
    """Train fresh models on D_r with a local start, as the beginning of a method.

    Args:
        run: the models.
        plan: the settings of the local start.
        stream: random stream of the weights, the codes and the batch order.
        last: name of the last phase to carry out, if the settings have it.
    """
    training = LocalStart(run, plan, vfl_pb2.RETAIN, stream)
    run.progress.phase(stream, training.steps)
    training.begin()
    for number in range(training.epochs):
        if not run.finite:
            return
        run.once(f"{stream}, epoch {number + 1}", float, partial(_epoch_loss, training, number))
        if training.ends(last, number):
            return


def _epoch_loss(training: LocalStart, number: int) -> float:
    """Carry out an epoch; return its mean loss, or 0 in the local fit."""
    return training.epoch(number)[1] or 0.0
