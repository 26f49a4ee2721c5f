"""Retrain: the remaining clients train a new model; other methods are compared with Retrain."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from torch import Tensor

from parties.horizontal.engine.clusters import mean_model
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan, RoundSource
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.methods.method import ClientMethod
from parties.horizontal.methods.recover import TrainedState, train_further
from parties.requests.driver import JsonObject, StepResult, Stop
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class RetrainState:
    """The state of Retrain."""

    # The model of the present cluster, and the moments of the server optimiser.
    present: TrainedState
    # The models of the clusters that are trained, ``[d]`` each.
    trained: list[Tensor] = field(default_factory=list)

    @property
    def model(self) -> Tensor:
        """The model of the present cluster; after the last step, the mean of all, ``[d]``."""
        return self.present.model


@dataclass(frozen=True, slots=True)
class Retrain(ClientMethod[RetrainState]):
    """Trains a new model with the remaining clients for as many rounds as the original training."""

    round_plan: RoundPlan  # plan of the training rounds
    name: str = "retrain"  # name of this Retrain model; its random stream has the same name
    # The clients of each cluster; empty if all clients train together.
    groups: tuple[tuple[str, ...], ...] = ()
    guarantee: ClassVar[Guarantee] = Guarantee.EXACT
    state: ClassVar[type[RetrainState]] = RetrainState
    from_scratch: ClassVar[bool] = True

    def count(self, run: HorizontalRun) -> int:
        """Return the number of rounds of all clusters."""
        return self.round_plan.rounds * len(self._clusters(run))

    def init(self, run: HorizontalRun) -> RetrainState:
        """Start from a new model with random weights."""
        return RetrainState(TrainedState(run.initial_model(self.name)))

    def step(self, run: HorizontalRun, state: RetrainState, k: int) -> StepResult[RetrainState]:
        """Run one round of one cluster."""
        clusters, rounds = self._clusters(run), self.round_plan.rounds
        cluster, number = divmod(k, rounds)
        if cluster == len(clusters):
            return Stop()
        if k and not number:  # the next cluster also starts from the new model
            first = TrainedState(run.initial_model(self.name))
            state = RetrainState(first, [*state.trained, state.model])
        source = RoundSource(run, clusters[cluster])
        present, record = train_further(run, source, self.round_plan, state.present, number)
        return replace(state, present=present), record

    def finish(
        self, _run: HorizontalRun, state: RetrainState, _records: Sequence[JsonObject], _stop: Stop
    ) -> RetrainState:
        """Return the state with the mean of the clusters' models."""
        return RetrainState(TrainedState(mean_model([*state.trained, state.model])))

    def _clusters(self, run: HorizontalRun) -> list[Sequence[Member]]:
        """The remaining members of each cluster that has any."""
        parts = [[m for m in run.remaining if m.client in group] for group in self.groups]
        return [part for part in parts if part] or [run.remaining]
