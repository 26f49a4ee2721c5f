"""Tests of the driver: steps, crashes, and numbers that are not finite."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import pytest

from parties.common.progress import ProgressReporter
from parties.requests.driver import (
    NOT_FINITE,
    NOTHING,
    JsonObject,
    Needs,
    StepRecord,
    Stop,
    carry_out,
)
from parties.session.journal import Journal, recorded_value
from unlearning.guarantee import Guarantee

T = TypeVar("T")
STEPS = 5
SPOILT = 1_000_000  # a model that is not finite, which no step notices


class Crash(Exception):
    """The process dies."""


@dataclass
class CountingRun:
    """A model that is one number, with a journal that survives a crash."""

    journal: Journal
    model: int = 0
    good: int = 0
    finite: bool = True
    progress: ProgressReporter = field(
        default_factory=lambda: ProgressReporter("x", lambda _: None)
    )

    def verify(self) -> None:
        self.finite = self.finite and self.model != SPOILT

    def recorded(self, name: str, kind: type[T]) -> T | None:
        entry = self.journal.begin(name)
        return None if entry is None else recorded_value(entry, kind)

    def record(self, name: str, value: object) -> None:
        self.journal.update(name, value, diverged=False)

    def keep_good(self, _which: Sequence[bool] | None) -> None:
        self.good = self.model

    def restore_good(self) -> None:
        self.model = self.good

    def drop_good(self) -> None:
        self.good = -1


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the steps so far."""

    total: int


class Counting:
    """A method that adds the number of each step to the model; ``before`` runs before a step."""

    name: ClassVar = "counting"
    guarantee: ClassVar = Guarantee.HEURISTIC
    settings: ClassVar = None
    state: ClassVar = Total

    def __init__(self, before: Callable[[CountingRun, int], None] = lambda _run, _k: None) -> None:
        self._before = before
        self.done: list[int] = []

    def needs(self, _agreement: Any) -> Needs:
        return NOTHING

    def count(self, _run: CountingRun) -> int:
        return STEPS

    def init(self, _run: CountingRun) -> Total:
        return Total(0)

    def step(self, run: CountingRun, state: Total, k: int) -> tuple[Total, StepRecord] | Stop:
        self._before(run, k)
        if k == STEPS:
            return Stop("all steps")
        self.done.append(k)
        run.model += k
        return Total(state.total + k), StepRecord({"k": k})

    def finish(
        self, run: CountingRun, state: Total, records: Sequence[JsonObject], stop: Stop
    ) -> tuple[int, int, list[int], str | None]:
        return run.model, state.total, [each["k"] for each in records], stop.reason


def test_all_steps_are_carried_out_in_order() -> None:
    run = CountingRun(Journal())
    assert carry_out(Counting(), run) == (10, 10, [0, 1, 2, 3, 4], "all steps")
    assert run.good == -1  # the kept copy is deleted
    assert len(run.journal.entries) == 1


@pytest.mark.parametrize("last", range(STEPS + 1))
def test_a_crash_repeats_at_most_the_step_that_it_interrupted(last: int) -> None:
    journal = Journal()

    def crash(_run: CountingRun, k: int) -> None:
        if k == last:
            raise Crash

    first = Counting(crash)
    run = CountingRun(journal)
    with pytest.raises(Crash):
        carry_out(first, run)
    again, after = Counting(), CountingRun(Journal(journal.entries), run.model)
    assert carry_out(again, after) == (10, 10, [0, 1, 2, 3, 4], "all steps")
    assert first.done + again.done == [0, 1, 2, 3, 4]


def test_the_display_of_a_resumed_method_shows_the_steps_that_are_left() -> None:
    journal, events = Journal(), list[dict[str, Any]]()

    def count_then_crash(run: CountingRun, k: int) -> None:
        run.progress.step()
        if k == 3:
            raise Crash

    with pytest.raises(Crash):
        carry_out(Counting(count_then_crash), CountingRun(journal))
    for left in (2, 1):  # a second crash, in step 4
        entries = Journal(journal.entries)
        run = CountingRun(entries, 6, progress=ProgressReporter("x", events.append))

        def count(run: CountingRun, k: int) -> None:
            run.progress.step()
            if k == 4 and left == 2:  # noqa: B023  called in this turn of the loop
                raise Crash

        with suppress(Crash):
            carry_out(Counting(count), run)
        totals = [each["total"] for each in events if each["event"] == "progress"]
        assert totals[0] == left
        journal, events = run.journal, []


def test_a_crash_after_the_end_repeats_no_step() -> None:
    run = CountingRun(Journal())
    carry_out(Counting(), run)
    again = Counting()
    carry_out(again, CountingRun(Journal(run.journal.entries), run.model))
    assert again.done == []


def test_numbers_that_are_not_finite_restore_the_last_good_model() -> None:
    def diverge(run: CountingRun, k: int) -> None:
        run.finite = k < 3

    run = CountingRun(Journal())
    model, _, records, reason = carry_out(Counting(diverge), run)
    assert (model, records, reason) == (0 + 1 + 2, [0, 1, 2, 3], NOT_FINITE)


def test_a_model_that_was_spoilt_by_the_last_step_is_not_kept() -> None:
    class Spoiling(Counting):
        def step(self, run: CountingRun, state: Total, k: int) -> tuple[Total, StepRecord] | Stop:
            found = super().step(run, state, k)
            if k == STEPS - 1:
                run.model = SPOILT
            return found

    model, *_, reason = carry_out(Spoiling(), CountingRun(Journal()))
    assert (model, reason) == (0 + 1 + 2 + 3, NOT_FINITE)


def test_a_failure_before_the_first_step_restores_the_model_before_the_method() -> None:
    method = Counting()
    run = CountingRun(Journal(), model=7, good=7, finite=False)
    assert carry_out(method, run)[0] == 7
    assert method.done == []


def test_a_model_that_is_not_good_is_not_kept() -> None:
    class Doubtful(Counting):
        def step(self, run: CountingRun, state: Total, k: int) -> tuple[Total, StepRecord] | Stop:
            found = super().step(run, state, k)
            if isinstance(found, Stop):
                return Stop(restore=True)
            return found[0], StepRecord(found[1].figures, good=k == 1)

    run = CountingRun(Journal())
    assert carry_out(Doubtful(), run)[0] == 0 + 1


def test_results_of_parts_of_a_step_are_dropped_once_the_step_is_recorded() -> None:
    journal = Journal()

    def part(_run: CountingRun, k: int) -> None:
        journal.record(f"part {k}", lambda: k, lambda: False)

    carry_out(Counting(part), CountingRun(journal))
    assert [each.name for each in journal.entries] == ["counting"]
