"""One party beside a server: what the server and every client have at hand."""

from dataclasses import dataclass, field

from configs.federated import Federated
from configs.horizontal import Horizontal
from parties.horizontal.local.learner import Shelf, no_rows
from parties.session.party import Seated


def empty() -> Shelf:
    """The shelf of who has no rows."""
    return Shelf(no_rows(), no_rows())


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedParty(Seated):
    """A seat taken, whatever is taught."""

    agreement: Federated


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizontalParty(FederatedParty):
    """A seat taken; the server's shelf is empty."""

    agreement: Horizontal
    shelf: Shelf = field(default_factory=empty)
