"""Unlearning in the LLM mode: the methods that run, and the tables that several methods use."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from configs.federated import ServerRule
from configs.table import ConfigTable, Count, Fraction, Positive
from configs.unlearning import MethodSettings
from configs.variants import MethodVariant, UnlearningSettingsBase


def _absent(value: object) -> bool:
    return value is None


class TextStage(ConfigTable):
    """Settings of one stage of a method; a stage consists of rounds."""

    rounds: Annotated[int, Field(ge=0, lt=2**31)] = 5
    # Fraction of the participants that take part in a round; a round that unlearns has at least one
    # client with forgotten texts. Absent: the value of training.share.
    share: Fraction | None = Field(default=None, exclude_if=_absent)
    # Weight μ of the proximal term of FedProx; absent: the value of training.proximal.
    proximal: Annotated[float, Field(ge=0)] | None = Field(default=None, exclude_if=_absent)
    # Learning rate; absent: the value of training.learning_rate.
    learning_rate: Positive | None = None
    epochs: Count = 1  # local epochs in a round
    batch: Count | None = None  # rows of a batch; absent: the value of training.batch


class ForgettingSettings(MethodSettings):
    """Stages of a method that unlearns texts."""

    unlearn: TextStage = TextStage()  # rounds that unlearn
    recover: TextStage = TextStage(rounds=0)  # rounds of recovery
    # Clients in a round that unlearns. all: all clients; clients without forgotten texts train on
    # the usual loss. leaving: only clients with forgotten texts, as in the code released with
    # Oblivionis.
    participants: Literal["all", "leaving"] = "all"

    @model_validator(mode="after")
    def _has_rounds_that_unlearn(self) -> Self:
        if not self.unlearn.rounds:
            raise ValueError(
                "unlearn.rounds must be at least 1 (got 0); only recover.rounds may be 0"
            )
        return self


class ServerRuleSettings(ForgettingSettings):
    """Stages of a method that minimises a loss without a dual variable."""

    # Update rule of the server in the rounds that unlearn and recover; absent: the mean update is
    # added.
    rule: ServerRule | None = None


class TextVariant(MethodVariant):
    """Variant of a method of the LLM mode: the same method with other settings."""


class TextUnlearning(UnlearningSettingsBase):
    """Unlearning of texts: the methods to run for every request, and each method's settings."""

    def chosen(self) -> list[ForgettingSettings]:
        """Return the settings of the unlearning methods of a run; fine-tune is not included."""
        return [each for _, each in self.tables() if isinstance(each, ForgettingSettings)]

    def stages(self) -> list[TextStage]:
        """Return the stages of the methods of a run; the stages of Retrain are not included."""
        found: list[TextStage] = []
        for _, each in self.tables():
            if isinstance(each, ForgettingSettings):
                found += [each.unlearn, each.recover]
            elif isinstance(each, TextStage):
                found.append(each)
        return found
