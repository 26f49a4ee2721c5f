"""Noisy fine-tune (baseline): fine-tuning in which the server clips the mean update and adds noise.

Notation: C = the clipping norm; σ = the noise multiplier; K = the number of clients whose updates
the mean contains. The noise of a round has the standard deviation σ C / K. Without clipping, C is
the norm of the mean update. The method claims no privacy: the noise follows from the seed of the
agreement, which all clients know, and the mean update is not bounded per client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.table import Positive
from parties.common.shared_randomness import derive_key, normal_draws
from parties.horizontal.engine.cohort import MeanUpdate, Member, Trainer
from parties.horizontal.engine.rounds import RoundPlan, RoundSource
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.local.local_task import LocalTask, Slots
from parties.horizontal.methods.method import ClientMethod, ModelState, StageBuilder
from parties.horizontal.methods.recover import Recovery, TrainedState, train_further
from parties.requests.driver import StepRecord, Stop


class NoisyFineTuneSettings(ClientMethodSettings):
    """Baseline: fine-tuning with clipped mean updates and noise, without a privacy claim."""

    stage: StageSettings = StageSettings()  # rounds of fine-tuning
    clip: Positive | None = None  # largest norm C of the mean update; absent: no clipping
    # Noise multiplier σ: the noise has the standard deviation σ C / clients; without clipping, C is
    # the norm of the mean update.
    sigma: Annotated[float, Field(ge=0)] = 0.1


@dataclass(frozen=True, slots=True)
class NoisyFineTune(ClientMethod[ModelState]):
    """Trains the remaining clients further, with a clipped mean update and noise in every round.

    Attributes:
        round_plan: rounds of fine-tuning.
        clip: C; None: no clipping.
        sigma: σ; with 0 and no clipping, the method is fine-tune.
    """

    round_plan: RoundPlan
    clip: float | None = None
    sigma: float = 0.1
    name: str = "noisy-fine-tune"
    title: ClassVar[str] = "Noisy fine-tune"
    meaning: ClassVar[str] = "training goes on with clipped and noisy updates"
    settings: ClassVar = NoisyFineTuneSettings

    @classmethod
    def from_agreement(
        cls, _agreement: object, plan: NoisyFineTuneSettings, rounds: StageBuilder
    ) -> Self:
        """Build the method from its settings."""
        return cls(rounds(plan.stage, "recover"), plan.clip, plan.sigma)

    def count(self, _run: HorizontalRun) -> int:
        """Return 0: all rounds are rounds of recovery."""
        return 0

    def init(self, run: HorizontalRun) -> ModelState:
        """Start from the original model."""
        return ModelState(run.original)

    def step(self, _run: HorizontalRun, _state: ModelState, _k: int) -> Stop:
        """Return the end: all rounds are rounds of recovery."""
        return Stop()

    def recovery(self, _run: HorizontalRun, state: ModelState) -> Recovery:
        """Return the rounds of training with noise."""
        noisy = NoisyUpdates(self.round_plan, self.clip, self.sigma)
        return NoisyRecovery(self.round_plan, TrainedState(state.model), noisy=noisy)


@dataclass(frozen=True, slots=True)
class NoisyUpdates:
    """Clips a round's mean update, and adds noise to it.

    Attributes:
        round_plan: the rounds; their random stream and the seed of the agreement give the noise.
        clip: C; None: no clipping.
        sigma: σ.
    """

    round_plan: RoundPlan
    clip: float | None
    sigma: float

    def mean_update(
        self,
        trainer: Trainer,
        number: int,
        members: Sequence[Member],
        task: LocalTask,
        slots: Slots,
    ) -> MeanUpdate:
        """Return a round's clipped and noisy mean update; ``slots`` are sent vectors, ``[d]``."""
        mean = trainer.mean_update(members, task, slots)
        delta, norm = mean.delta, float(mean.delta.double().norm())
        if self.clip is not None and norm > self.clip:
            delta = delta * (self.clip / norm)
        bound = norm if self.clip is None else self.clip
        scale = self.sigma * bound / (len(members) - len(mean.absent))
        key = derive_key(self.round_plan.seed, "noise", self.round_plan.task.stream, number)
        noise = torch.from_numpy(normal_draws(key, len(delta)))
        return replace(mean, delta=delta + (scale * noise).to(delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRecovery(Recovery):
    """Rounds of training at the remaining clients with noisy mean updates.

    Attributes:
        noisy: clips the mean updates and adds the noise.
    """

    noisy: NoisyUpdates

    def train(
        self, run: HorizontalRun, state: TrainedState, number: int
    ) -> tuple[TrainedState, StepRecord]:
        """Return the state after round ``number``, and the record of the round."""
        source = RoundSource(run, run.remaining, writer=self.noisy)
        return train_further(run, source, self.round_plan, state, number)
