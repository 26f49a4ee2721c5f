"""What the agreements of all modes have in common, as protocol classes."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from configs.agreement import LimitSettings
from configs.schema import Dumpable


class AnyPartyEntry(Protocol):
    """A party of the agreement of any mode."""

    @property
    def role(self) -> str:
        """Role of the party."""

    @property
    def pins(self) -> Sequence[str]:
        """Accepted fingerprints (pins) of the party's key."""


class AnyAgreement(Dumpable, Protocol):
    """An agreement of any mode."""

    @property
    def federation(self) -> str:
        """Name of the federation."""

    @property
    def parties(self) -> Mapping[str, AnyPartyEntry]:
        """The parties by name."""

    @property
    def limits(self) -> LimitSettings:
        """Timeouts and size limits of a run."""

    @property
    def hub(self) -> str:
        """Name of the party to which all others connect."""

    @property
    def spokes(self) -> Sequence[str]:
        """Names of the parties that connect to the hub."""
