"""Fine-tune for texts, a baseline: continue to train on the remaining texts."""

from dataclasses import dataclass
from typing import ClassVar, Self

from pydantic import model_validator

from configs.language_unlearning import TextStage
from configs.unlearning import MethodSettings
from parties.horizontal.methods.fine_tune import FineTune
from parties.report.method_names import Label


class TextFineTuneSettings(TextStage, MethodSettings):
    """Rounds of the baseline fine-tune."""

    @model_validator(mode="after")
    def _has_rounds(self) -> Self:
        if not self.rounds:
            raise ValueError(
                "fine_tune.rounds must be at least 1, because 0 rounds would not change the model"
            )
        return self


@dataclass(frozen=True, slots=True)
class TextFineTune(FineTune):
    """Fine-tuning on the retained texts; every table of results contains Fine-tune."""

    settings: ClassVar = TextFineTuneSettings
    label: ClassVar = Label("Fine-tune", "training goes on without the forgotten rows")
