"""Rounds of federated learning: select members, train, average the updates, update the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Protocol

from torch import Tensor

from models.server_optimisers import FedAvg, ServerOptimiser
from parties.common.errors import Diverged
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.engine.cohort import MeanUpdate, Member, Trainer, require_finite
from parties.horizontal.local.local_task import LocalTask, Slots

AVERAGE = FedAvg()  # the mean update is added to the model


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """Settings of a sequence of rounds."""

    task: LocalTask  # local task of every client; ``task_at`` adapts it to a round
    rounds: int  # the sequence ends before the round with this number; rounds are numbered from 0
    share: float = 1.0  # fraction of the members that take part in a round
    decay: float = 1.0  # factor by which the clients' learning rate is multiplied after each round
    rule: ServerOptimiser = AVERAGE  # server optimiser, which applies the mean update to the model
    seed: int = 0  # seed of the selection of members
    first: int = 0  # number of the round with which the sequence starts

    def task_at(self, number: int) -> LocalTask:
        """Return the local task of round ``number``, from 0."""
        rate = self.task.learning_rate * self.decay**number
        stream = f"{self.task.stream} {number}"
        return replace(self.task, stream=stream, learning_rate=rate)

    def select_members(self, members: Sequence[Member], number: int) -> list[Member]:
        """Return the members that take part in round ``number``."""
        count = max(1, ceil(self.share * len(members) - 1e-9))
        order = permutation(
            derive_key(self.seed, "clients", self.task.stream, number), len(members)
        )
        return sorted(members[place] for place in order[:count])


@dataclass(frozen=True, slots=True)
class RoundResult:
    """The result of a finished round."""

    number: int  # number of the round
    model: Tensor  # the model after the round, ``[d]``
    rule: ServerOptimiser  # the server optimiser, with its moments after the round
    mean: MeanUpdate  # mean update of the round


RoundCallback = Callable[[RoundResult], None]


@dataclass(frozen=True, slots=True)
class ChosenRound:
    """A round before it is run."""

    number: int  # number of the round
    members: Sequence[Member]  # the members that take part
    task: LocalTask  # their local task
    slots: Slots  # the vectors that are sent, by name, ``[d]`` each; ``model`` is always present

    def mean_update(self, trainer: Trainer) -> MeanUpdate:
        """Return the mean update of the members."""
        return trainer.mean_update(self.members, self.task, self.slots)


class HistoryWriter(Protocol):
    """Returns each round's mean update; may store the round for a later unlearning request."""

    def mean_update(self, trainer: Trainer, chosen: ChosenRound) -> MeanUpdate:
        """Return the mean update of a round, ``[d]``."""


class NoHistory:
    """A history writer that stores nothing."""

    def mean_update(self, trainer: Trainer, chosen: ChosenRound) -> MeanUpdate:
        """Return the mean update of a round, ``[d]``."""
        return chosen.mean_update(trainer)


NO_HISTORY = NoHistory()


@dataclass(frozen=True, slots=True)
class RoundSource:
    """What a round takes from a run."""

    trainer: Trainer  # the clients
    members: Sequence[Member]  # the members from which the round selects those that take part
    # Vectors that the clients' task needs besides the model, ``[d]`` each.
    slots: Slots = field(default_factory=dict)
    # Object that stores the rounds that an unlearning method needs later.
    writer: HistoryWriter = NO_HISTORY


def run_round(
    source: RoundSource, round_plan: RoundPlan, number: int, model: Tensor, rule: ServerOptimiser
) -> RoundResult:
    """Run round ``number`` of a plan from ``model``, ``[d]``, and the server optimiser ``rule``.

    Raises:
        Diverged: an update is not finite.
    """
    members, slots = round_plan.select_members(source.members, number), source.slots
    chosen = ChosenRound(number, members, round_plan.task_at(number), {"model": model, **slots})
    mean = source.writer.mean_update(source.trainer, chosen)
    model, rule = rule.step(model, mean.delta.to(model.dtype))
    return RoundResult(number, model, rule, mean)


def run_rounds(
    trainer: Trainer,
    model: Tensor,
    members: Sequence[Member],
    round_plan: RoundPlan,
    watch: RoundCallback,
    writer: HistoryWriter = NO_HISTORY,
) -> Tensor:
    """Run all rounds and return the model after the last one, ``[d]``.

    Args:
        trainer: the clients.
        model: the model before the first round, ``[d]``.
        members: the members from which each round selects those that take part.
        round_plan: settings of the rounds.
        watch: callback that receives the result of each round.
        writer: object that stores the rounds that an unlearning method needs later.

    Raises:
        Diverged: an update, or the model after a round, is not finite.
    """
    rule, source = round_plan.rule, RoundSource(trainer, members, writer=writer)
    for number in range(round_plan.first, round_plan.rounds):
        try:
            done = run_round(source, round_plan, number, model, rule)
            require_finite(done.model)
        except Diverged as error:
            raise Diverged(f"diverged in round {number + 1}: {error}", error.hint) from error
        model, rule = done.model, done.rule
        watch(done)
    return model
