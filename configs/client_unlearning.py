"""Client unlearning: the methods that run, and the tables that several methods use."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from configs.table import ConfigTable, Count, Name, Positive
from configs.unlearning import MethodSettings, table_name
from configs.variants import MethodVariant, UnlearningSettingsBase

# What a method reads of the clients. sums: sums over all remaining or all leaving clients of which
# the server can tell nothing else. each update: the update of every client. leaving update: the
# mean over the leaving clients, which is one client's update if one client leaves. repeated sums:
# rounds of the training again, without the leaving clients; the sums of the training minus the
# repeated sums are one client's update if one client leaves.
Reads: TypeAlias = Literal["sums", "each update", "leaving update", "repeated sums"]
REPEATED_SUMS: Final[Reads] = "repeated sums"


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

    uses_target_client: ClassVar[bool] = False  # whether the method reads unlearning.target_client

    def problem_with_sums(self, _kind: str) -> str | None:
        """Return why these settings cannot be used with the secure aggregation ``kind``, if so."""
        return None


class ClientVariant(MethodVariant):
    """Variant of a client unlearning method: the same method with other settings."""


class ClientUnlearning(UnlearningSettingsBase):
    """Client unlearning: the methods to run for every request, and the settings of each method."""

    reads: ClassVar[Mapping[str, Reads]] = {}  # by method; the caller of the loader knows them

    # Remaining client whose model some methods change; absent: all remaining clients.
    target_client: Name | None = None

    @classmethod
    def methods_with_target(cls) -> str:
        """Return the names of the methods that use ``target_client``."""
        tables = {name: cls.model_fields.get(table_name(name)) for name in cls.methods()}
        used = [
            name
            for name, each in tables.items()
            if each is not None and getattr(each.annotation, "uses_target_client", False)
        ]
        return " and ".join([", ".join(used[:-1]), used[-1]])
