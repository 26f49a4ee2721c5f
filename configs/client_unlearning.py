"""Client unlearning: the methods that run, and the tables that several methods use."""

from typing import Annotated

from pydantic import Field

from configs.table import ConfigTable, Count, Name, Positive
from configs.unlearning import MethodSettings
from configs.variants import MethodVariant, UnlearningSettingsBase


class LocalTrainingSettings(ConfigTable):
    """Settings of the clients' local training in one stage of a method."""

    # Learning rate; absent: the value of training.learning_rate.
    learning_rate: Positive | None = None
    epochs: Count = 1  # local epochs in a round
    batch: Count | None = None  # rows of a batch; absent: the value of training.batch
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip: Positive | None = None  # largest norm of a step's gradient; absent: no clipping


class StageSettings(LocalTrainingSettings):
    """Settings of one stage of a method; a stage consists of rounds."""

    rounds: Annotated[int, Field(ge=0, lt=2**31)] = 20


class ClientMethodSettings(MethodSettings):
    """The table of settings of one client unlearning method."""

    def problem_with_sums(self, _kind: str) -> str | None:
        """Return why these settings cannot be used with the secure aggregation ``kind``, if so."""
        return None


class ClientVariant(MethodVariant):
    """Variant of a client unlearning method: the same method with other settings."""


class ClientUnlearning(UnlearningSettingsBase):
    """Client unlearning: the methods to run for every request, and the settings of each method."""

    retrains: Count = 1  # number of Retrains
    # Remaining client whose model mimir, fedmm and fedgkt change; absent: all remaining clients.
    target_client: Name | None = None
