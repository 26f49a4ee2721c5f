"""Where simulated clients come from: laid out when they are asked for, as they stand."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from parties.horizontal.task import Taught

T = TypeVar("T", bound=Taught)
LIVE = 4  # clients of one process whose rows are laid out at a time


@dataclass(frozen=True, slots=True)
class Source:
    """Where the simulation's config and data are."""

    config: Path
    changes: tuple[str, ...]
    data: Path | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a client has been told: the present request, and those that it has purged."""

    request: str | None = None
    purged: tuple[str, ...] = ()

    def taken(self, client: T) -> T:
        """The client, once it has been told all this."""
        for name in self.purged:
            client.attend(name)
            client.purge()
        if self.request is not None:
            client.attend(self.request)
        return client


class Stock(Protocol):
    """Clients that are laid out when they are asked for."""

    def learner(self, client: str, standing: Standing) -> Taught:
        """A client as it stands."""
