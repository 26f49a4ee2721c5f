"""What the agreements of all modes have in common."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from configs.agreement import Limits
from configs.schema import Dumped


class Pinned(Protocol):
    """A party as an agreement describes it."""

    @property
    def role(self) -> str:
        """What it does."""

    @property
    def pins(self) -> Sequence[str]:
        """Of its key."""


class Shared(Dumped, Protocol):
    """What the agreements of all modes have."""

    @property
    def federation(self) -> str:
        """Its name."""

    @property
    def parties(self) -> Mapping[str, Pinned]:
        """Who takes part."""

    @property
    def limits(self) -> Limits:
        """When a party gives up."""

    @property
    def hub(self) -> str:
        """Whom the others dial."""

    @property
    def spokes(self) -> Sequence[str]:
        """Who dials."""
