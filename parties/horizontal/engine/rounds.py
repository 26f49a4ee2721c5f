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
    """Settings of a sequence of rounds.

    Attributes:
        task: local task of every client; ``task_at`` adapts it to a round.
        rounds: the sequence ends before the round with this number; rounds are numbered from 0.
        share: fraction of the members that take part in a round.
        decay: factor by which the clients' learning rate is multiplied after each round.
        rule: server optimiser, which applies the mean update to the model.
        seed: seed of the selection of members.
        first: number of the round with which the sequence starts.
    """

    task: LocalTask
    rounds: int
    share: float = 1.0
    decay: float = 1.0
    rule: ServerOptimiser = AVERAGE
    seed: int = 0
    first: int = 0

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
    """The result of a finished round.

    Attributes:
        number: number of the round.
        model: the model after the round, ``[d]``.
        rule: the server optimiser, with its moments after the round.
        mean: mean update of the round.
    """

    number: int
    model: Tensor
    rule: ServerOptimiser
    mean: MeanUpdate


RoundCallback = Callable[[RoundResult], None]


@dataclass(frozen=True, slots=True)
class ChosenRound:
    """A round before it is run.

    Attributes:
        number: number of the round.
        members: the members that take part.
        task: their local task.
        slots: the vectors that are sent, by name, ``[d]`` each; ``model`` is always present.
    """

    number: int
    members: Sequence[Member]
    task: LocalTask
    slots: Slots

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
    """What a round takes from a run.

    Attributes:
        trainer: the clients.
        members: the members from which the round selects those that take part.
        slots: vectors that the clients' task needs besides the model, ``[d]`` each.
        writer: object that stores the rounds that an unlearning method needs later.
    """

    trainer: Trainer
    members: Sequence[Member]
    slots: Slots = field(default_factory=dict)
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
