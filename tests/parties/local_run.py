"""Runs of unlearning methods with clients in this process."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from parties.common.progress import ProgressReporter
from parties.horizontal.engine.cohort import MeanUpdate, Member
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import (
    FORGETTING_AIMS,
    SLOTS,
    LocalTask,
    LocalUpdate,
    Slots,
    needed_slots,
    task_differences,
)
from parties.horizontal.methods.method import AnyClientMethod
from parties.horizontal.methods.unlearn import UnlearnedModel, unlearn
from parties.requests.driver import StepRecord


def no_progress() -> ProgressReporter:
    """Return a reporter whose events nobody receives."""
    return ProgressReporter("server", lambda _: None)


@dataclass(slots=True, kw_only=True)
class WatchedRun(HorizontalRun):
    """A run that also passes the record of each round, with the model, to ``watch``."""

    watch: Callable[[RoundRecord], None]

    def finish_round(self, done: RoundRecord) -> StepRecord:
        found = HorizontalRun.finish_round(self, done)
        self.watch(done)
        return found


class AgreedTasks:
    """A cohort that checks that a method sends only tasks that clients carry out."""

    def __init__(self, run: HorizontalRun, method: AnyClientMethod) -> None:
        self._cohort, self._agreed, self._leaving = run.cohort, method.tasks(), {*run.leaving}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cohort, name)

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        known = list(members)
        self._check(known, task, slots)
        return self._cohort.updates(known, task, slots)

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        self._check(members, task, slots)
        return self._cohort.mean_update(members, task, slots)

    def _check(self, members: Iterable[Member], task: LocalTask, slots: Slots) -> None:
        assert [] in [task_differences(each, task) for each in self._agreed], task
        assert {*needed_slots(task)} <= {*slots} <= {"model", *SLOTS}
        if task.aim in FORGETTING_AIMS:
            assert {*members} <= self._leaving


def carried_out(method: AnyClientMethod, run: HorizontalRun) -> UnlearnedModel:
    """Carry out a method in a run without rounds; ``run`` does not change."""
    cohort: Any = AgreedTasks(run, method)
    return unlearn(method, replace(run, cohort=cohort))


def unlearned_model(method: AnyClientMethod, run: HorizontalRun) -> Tensor:
    """Carry out a method that does not diverge, and return the unlearned model, ``[d]``."""
    found = carried_out(method, run)
    assert found.diverged is None
    return found.model
