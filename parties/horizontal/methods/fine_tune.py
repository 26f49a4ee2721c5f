"""Fine-tune (baseline): train the remaining clients further, without any unlearning step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.unlearning import MethodSettings
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.methods.method import ModelState, StagedMethod
from parties.report.method_names import Label


class ClientFineTuneSettings(StageSettings, ClientMethodSettings):
    """Rounds of the baseline fine-tune."""


@dataclass(frozen=True, slots=True)
class FineTune(StagedMethod[ModelState]):
    """Runs recovery rounds on the original model; every table of results contains Fine-tune."""

    recover: RoundPlan
    name: str = "fine-tune"
    label: ClassVar = Label("Fine-tune", "training goes on without the forgotten rows")
    settings: ClassVar[type[MethodSettings]] = ClientFineTuneSettings

    @classmethod
    def from_settings(cls, plan: Any, rounds: Callable[[Any, str], RoundPlan]) -> Self:
        """Build the method from its settings, which are those of one stage."""
        return cls(rounds(plan, "recover"))
