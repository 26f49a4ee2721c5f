"""Rounds of federated learning: choose clients, teach them, take the mean, step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Protocol

from torch import Tensor

from models.server_optimisers import FedAvg, ServerOptimiser
from parties.common.errors import Diverged
from parties.common.shared_randomness import key, permutation
from parties.horizontal.engine.cohort import Cohort, Mean, Member, require_finite
from parties.horizontal.local.local_task import Lesson, Slots

AVERAGE = FedAvg()


@dataclass(frozen=True, slots=True)
class Course:
    """How rounds go.

    Attributes:
        lesson: of every client in every round; its stream and learning rate follow the round.
        rounds: how many.
        share: of the members that take part in a round.
        decay: of the learning rate, a round.
        rule: what the server does with the mean.
        seed: draws who takes part.
        first: the round to begin with.
    """

    lesson: Lesson
    rounds: int
    share: float = 1.0
    decay: float = 1.0
    rule: ServerOptimiser = AVERAGE
    seed: int = 0
    first: int = 0

    def at(self, number: int) -> Lesson:
        """The lesson of one round, from 0."""
        rate = self.lesson.learning_rate * self.decay**number
        stream = f"{self.lesson.stream} {number}"
        return replace(self.lesson, stream=stream, learning_rate=rate)

    def chosen(self, members: Sequence[Member], number: int) -> list[Member]:
        """Who takes part in one round."""
        count = max(1, ceil(self.share * len(members) - 1e-9))
        order = permutation(key(self.seed, "clients", self.lesson.stream, number), len(members))
        return sorted(members[place] for place in order[:count])


@dataclass(frozen=True, slots=True)
class Round:
    """One round that is over: its number, and the model and the rule after it."""

    number: int
    model: Tensor
    rule: ServerOptimiser
    mean: Mean


Watcher = Callable[[Round], None]


class Keeper(Protocol):
    """Keeps some rounds as they go by."""

    def mean(
        self, cohort: Cohort, number: int, members: Sequence[Member], lesson: Lesson, slots: Slots
    ) -> Mean:
        """The mean of one round."""


class KeepsNothing:
    """For rounds that nobody needs later."""

    def mean(
        self, cohort: Cohort, number: int, members: Sequence[Member], lesson: Lesson, slots: Slots
    ) -> Mean:
        """See ``Keeper``."""
        del number
        return cohort.mean(members, lesson, slots)


NOTHING_KEPT = KeepsNothing()


def run(
    cohort: Cohort,
    model: Tensor,
    members: Sequence[Member],
    course: Course,
    watch: Watcher,
    keeper: Keeper = NOTHING_KEPT,
) -> Tensor:
    """The model after all rounds, ``[d]``; ``watch`` is told of each.

    Raises:
        Diverged: an update, or the model after a round, is not finite.
    """
    rule = course.rule
    for number in range(course.first, course.rounds):
        chosen, lesson = course.chosen(members, number), course.at(number)
        try:
            mean = keeper.mean(cohort, number, chosen, lesson, {"model": model})
            model, rule = rule.step(model, mean.change.to(model.dtype))
            require_finite(model)
        except Diverged as error:
            raise Diverged(f"diverged in round {number + 1}: {error}", error.hint) from error
        watch(Round(number, model, rule, mean))
    return model
