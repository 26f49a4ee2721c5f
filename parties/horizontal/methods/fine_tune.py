"""Fine-tune (baseline): train the remaining clients further, without any unlearning step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.unlearning import MethodSettings
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.methods.method import ClientMethod, ModelState
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.requests.driver import Stop


class ClientFineTuneSettings(StageSettings, ClientMethodSettings):
    """Rounds of the baseline fine-tune."""


@dataclass(frozen=True, slots=True)
class FineTune(ClientMethod[ModelState]):
    """Runs recovery rounds on the original model; every table of results contains Fine-tune."""

    round_plan: RoundPlan
    name: str = "fine-tune"
    title: ClassVar[str] = "Fine-tune"
    meaning: ClassVar[str] = "training goes on without the forgotten rows"
    settings: ClassVar[type[MethodSettings]] = ClientFineTuneSettings

    @classmethod
    def from_agreement(
        cls, _agreement: object, plan: Any, rounds: Callable[[Any, str], RoundPlan]
    ) -> Self:
        """Build the method from its settings, which are those of one stage."""
        return cls(rounds(plan, "recover"))

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
        """Return the rounds of training."""
        return Recovery(self.round_plan, TrainedState(state.model))
