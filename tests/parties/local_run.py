"""Runs of unlearning methods with clients in this process."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from parties.common.progress import ProgressReporter
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
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


def carried_out(method: AnyClientMethod, run: HorizontalRun) -> UnlearnedModel:
    """Carry out a method in a run without rounds; ``run`` does not change."""
    return unlearn(method, replace(run))


def unlearned_model(method: AnyClientMethod, run: HorizontalRun) -> Tensor:
    """Carry out a method that does not diverge, and return the unlearned model, ``[d]``."""
    found = carried_out(method, run)
    assert found.diverged is None
    return found.model
