"""Methods of one step, whose parts record their own progress: training from scratch and solving."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from configs.agreement import VerticalAgreement
from parties.requests.driver import (
    JsonObject,
    MethodDefaults,
    StepRecord,
    StepResult,
    Stop,
)
from parties.vertical.methods.method import MethodResult
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.orders import Orders
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class SingleState:
    """The state of a method of one step."""

    # Values for the report; empty before the step.
    figures: JsonObject = field(default_factory=dict)
    stopped: str | None = None  # why the method ended early; None if it ended normally
    # The guarantee of this run; None for the guarantee of the method.
    guarantee: Guarantee | None = None


class SingleStepMethod(MethodDefaults, ABC):
    """A method of one step; the epochs or Newton steps in this step are recorded one by one."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACT
    settings: ClassVar[None] = None
    state: ClassVar[type[SingleState]] = SingleState

    @abstractmethod
    def unlearn(self, run: NetworkRun) -> SingleState:
        """Carry out the whole method."""

    def orders(self, _agreement: VerticalAgreement) -> Orders:
        """Copies are restored without an update rule; every training has the task TRAIN."""
        return Orders()

    def count(self, _run: NetworkRun) -> None:
        """None: the parts of the step display their own progress."""
        return

    def init(self, _run: NetworkRun) -> SingleState:
        """Return an empty state."""
        return SingleState()

    def step(self, run: NetworkRun, state: SingleState, k: int) -> StepResult[SingleState]:
        """Carry out the whole method in the first step."""
        if k:
            return Stop(state.stopped)
        return self.unlearn(run), StepRecord(good=False)

    def finish(
        self, _run: NetworkRun, state: SingleState, _records: Sequence[JsonObject], stop: Stop
    ) -> MethodResult:
        """Return the values for the report."""
        return MethodResult(state.figures, stopped=stop.reason, guarantee=state.guarantee)
