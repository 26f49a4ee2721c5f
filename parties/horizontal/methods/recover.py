"""Recovery: the remaining clients continue the training to restore accuracy after unlearning."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from models.server_optimisers import ServerOptimiser, optimiser_moments, restore_moments
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan, RoundSource, run_round
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import Slots
from parties.requests.driver import JsonObject, MethodDefaults, StepRecord, StepResult, Stop


@dataclass(frozen=True, slots=True)
class TrainedState:
    """The state of a method whose server optimiser may have moments."""

    model: Tensor  # the model, ``[d]``
    # The moments of the server optimiser by name, ``[d]`` each.
    moments: dict[str, Tensor] = field(default_factory=dict)

    def rule(self, initial: ServerOptimiser) -> ServerOptimiser:
        """Return the optimiser ``initial`` with the moments of this state."""
        return restore_moments(initial, self.moments)


def train_further(
    run: HorizontalRun, source: RoundSource, round_plan: RoundPlan, state: TrainedState, number: int
) -> tuple[TrainedState, StepRecord]:
    """Run one round of training, and record it as a round of recovery."""
    done = run_round(source, round_plan, number, state.model, state.rule(round_plan.rule))
    record = run.finish_round(RoundRecord("recover", number, done.model, done.mean.loss))
    return TrainedState(done.model, optimiser_moments(done.rule)), record


@dataclass(frozen=True, slots=True)
class Recovery(MethodDefaults):
    """Rounds of training at the remaining clients after the steps of a method; one step a round."""

    round_plan: RoundPlan  # settings of the rounds
    start: TrainedState  # the state before the first round
    members: Sequence[Member] | None = None  # the members that train; None: all remaining members
    # Vectors that the clients' task needs besides the model, ``[d]`` each.
    slots: Slots = field(default_factory=dict)
    state: ClassVar[type[TrainedState]] = TrainedState

    @property
    def name(self) -> str:
        """Name in the journal and in the progress display: the random stream of the rounds."""
        return self.round_plan.task.stream

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds."""
        return self.round_plan.rounds

    def init(self, _run: HorizontalRun) -> TrainedState:
        """Return the state before the first round."""
        return self.start

    def step(self, run: HorizontalRun, state: TrainedState, k: int) -> StepResult[TrainedState]:
        """Run one round."""
        return Stop() if k == self.round_plan.rounds else self.train(run, state, k)

    def train(
        self, run: HorizontalRun, state: TrainedState, number: int
    ) -> tuple[TrainedState, StepRecord]:
        """Return the state after round ``number``, and the record of the round."""
        members = run.remaining if self.members is None else self.members
        source = RoundSource(run, members, self.slots)
        return train_further(run, source, self.round_plan, state, number)

    def finish(
        self,
        _run: HorizontalRun,
        state: TrainedState,
        _records: Sequence[JsonObject],
        _stop: Stop,
    ) -> Tensor:
        """Return the model after the last round, ``[d]``."""
        return state.model
