"""Noisy fine-tune (baseline): fine-tuning in which the server clips the mean update and adds noise.

Notation: C = the clipping norm; σ = the noise multiplier; K = the number of clients whose updates
the mean contains. The noise of a round has the standard deviation σ C / K. Without clipping, C is
the norm of the mean update. The method claims no privacy: the noise follows from the seed of the
agreement, which all clients know, and the mean update is not bounded per client.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

import torch
from pydantic import Field

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.table import Positive
from parties.common.shared_randomness import derive_key, normal_draws
from parties.horizontal.engine.cohort import MeanUpdate, Trainer
from parties.horizontal.engine.rounds import ChosenRound, RoundPlan, RoundSource
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.methods.method import ModelState, StagedMethod, Stages
from parties.horizontal.methods.recover import Recovery, TrainedState, train_further
from parties.report.method_names import Label
from parties.requests.driver import StepRecord


class NoisyFineTuneSettings(ClientMethodSettings):
    """Baseline: fine-tuning with clipped mean updates and noise, without a privacy claim."""

    stage: StageSettings = StageSettings()  # rounds of fine-tuning
    clip: Positive | None = None  # largest norm C of the mean update; absent: no clipping
    # Noise multiplier σ: the noise has the standard deviation σ C / clients; without clipping, C is
    # the norm of the mean update.
    sigma: Annotated[float, Field(ge=0)] = 0.1


@dataclass(frozen=True, slots=True)
class NoisyFineTune(StagedMethod[ModelState]):
    """Trains the remaining clients further, with a clipped mean update and noise in every round."""

    recover: RoundPlan  # rounds of fine-tuning
    plan: NoisyFineTuneSettings = field(default_factory=NoisyFineTuneSettings)  # the other settings
    name: str = "noisy-fine-tune"
    label: ClassVar = Label("Noisy fine-tune", "training goes on with clipped and noisy updates")
    settings: ClassVar = NoisyFineTuneSettings

    @classmethod
    def from_settings(cls, plan: NoisyFineTuneSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        return cls(rounds(plan.stage, "recover"), plan)

    def recovery(self, _run: HorizontalRun, state: ModelState) -> Recovery:
        """Return the rounds of training with noise."""
        noisy = NoisyUpdates(self.recover, self.plan)
        return NoisyRecovery(self.recover, TrainedState(state.model), noisy=noisy)


@dataclass(frozen=True, slots=True)
class NoisyUpdates:
    """Clips a round's mean update, and adds noise to it."""

    # The rounds; their random stream and the seed of the agreement give the noise.
    round_plan: RoundPlan
    plan: NoisyFineTuneSettings  # the clipping norm and the noise multiplier

    def mean_update(self, trainer: Trainer, chosen: ChosenRound) -> MeanUpdate:
        """Return a round's clipped and noisy mean update, ``[d]``."""
        mean = chosen.mean_update(trainer)
        delta, norm = mean.delta, float(mean.delta.double().norm())
        if self.plan.clip is not None and norm > self.plan.clip:
            delta = delta * (self.plan.clip / norm)
        bound = norm if self.plan.clip is None else self.plan.clip
        scale = self.plan.sigma * bound / (len(chosen.members) - len(mean.absent))
        key = derive_key(self.round_plan.seed, "noise", self.round_plan.task.stream, chosen.number)
        noise = torch.from_numpy(normal_draws(key, len(delta)))
        return replace(mean, delta=delta + (scale * noise).to(delta))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyRecovery(Recovery):
    """Rounds of training at the remaining clients with noisy mean updates."""

    noisy: NoisyUpdates  # clips the mean updates and adds the noise

    def train(
        self, run: HorizontalRun, state: TrainedState, number: int
    ) -> tuple[TrainedState, StepRecord]:
        """Return the state after round ``number``, and the record of the round."""
        source = RoundSource(run, run.remaining, writer=self.noisy)
        return train_further(run, source, self.round_plan, state, number)
