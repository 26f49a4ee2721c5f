"""The journal of a party that trains: it is only read, and open requests refuse the training."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from parties.common.errors import PolicyError
from parties.requests.journal import JOURNAL, RequestJournal
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestRules, requests_of
from parties.session.party import StartedParty
from protocol.errors import LocalProtocolError

_SHOWN = 3  # requests that an error names


def refuse_open_requests(party: StartedParty, rules: RequestRules) -> None:
    """Refuse a training while the party's journal has requests that are not carried out.

    Raises:
        PolicyError: requests are open.
        IntegrityError: the journal is damaged.
    """
    with journal_of(party) as journal:
        if journal is None:
            return
        views = requests_of(journal.events(), rules)
    found = [view for view in views if view.state not in ENDED | CARRIED_OUT]
    if found:
        named = ", ".join(f"{view.id} ({view.state.value})" for view in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise PolicyError(
            f"{party.name} cannot train: its journal has {len(found)} open requests to forget: "
            f"{named}{more}",
            "carry them out with vfl serve at every party, or withdraw them with vfl unlearn "
            "withdraw, then train",
        )


@contextmanager
def journal_of(party: StartedParty) -> Iterator[RequestJournal | None]:
    """Open the party's journal for reading in a ``with`` block; None if the party has none.

    Raises:
        IntegrityError: the journal is damaged.
    """
    path = party.state / JOURNAL
    if not path.exists():
        yield None
        return

    def refuse(*_: object) -> bytes:
        raise LocalProtocolError("a training adds no events to the journal of requests")

    def accept(*_: object) -> None:
        """Do nothing: signatures were verified before the events were stored."""

    with closing(RequestJournal(path, party.name, refuse, accept, party.now)) as journal:
        yield journal
