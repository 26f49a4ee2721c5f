"""Request journal of a party: the signed events of all parties, in one SQLite file.

Each party has a copy of all events. Two parties exchange what the other lacks: ``counts`` of one
side, ``since`` of the other, ``merge``. A journal that was restored from an older backup receives
its own later events back in this way; it must be merged before the party appends new events.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from parties.common.errors import PolicyError
from parties.requests.database import RequestDatabase
from parties.requests.events import (
    NO_EVENT,
    Event,
    EventBody,
    EventKind,
    JournaledBody,
    StartedBody,
    check_event,
    event_time,
)
from parties.requests.lifecycle import CARRIED_OUT, ENDED, RequestRules, requests_of
from parties.session.party import StartedParty
from protocol.errors import IdentityError, LocalProtocolError, RemoteProtocolError

JOURNAL: Final = "requests.sqlite"  # name of the file in a party's folder
_SHOWN: Final = 3  # requests that an error names


class RequestJournal:
    """The request journal of one party; its file may be open in several processes.

    Attributes:
        party: name of the party.
        database: the file, with the party's private tables.
    """

    def __init__(
        self,
        path: Path,
        party: str,
        sign: Callable[[bytes], bytes],
        verify: Callable[[str, bytes, bytes], None],
        now: Callable[[], datetime],
    ) -> None:
        """Open the journal; create the file if it is absent.

        Args:
            path: the file.
            party: the party that owns the journal.
            sign: returns the signature of a message by this party.
            verify: (party, message, signature) raises ``IdentityError`` if the signature of the
                party is wrong, or if the party is unknown.
            now: returns the present time.

        Raises:
            StorageError: the file cannot be used.
            IntegrityError: the file is damaged.
        """
        self.party = party
        self._sign, self._verify, self._now = sign, verify, now
        self.database = RequestDatabase(path)
        try:
            self._check()
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def transaction(self) -> AbstractContextManager[None]:
        """Return a ``with`` block whose changes become durable together, at its end."""
        return self.database.transaction()

    def append(self, kind: EventKind, request: str, body: EventBody) -> Event:
        """Sign and store a new event of this party; the event is durable when the call returns.

        A ``started`` event receives the counts of all other origins' events (``seen``).

        Raises:
            LocalProtocolError: the event is not valid, or the request's ID is in use.
            StorageError: the event cannot be stored; nothing has changed.
            IntegrityError: the file is damaged.
        """
        with self.database.transaction():
            heads = self._heads()
            if isinstance(body, StartedBody):
                seen = {origin: seq for origin, (seq, _) in heads.items() if origin != self.party}
                body = body.model_copy(update={"seen": seen})
            if kind is EventKind.REQUESTED and request in self._requested():
                raise LocalProtocolError(f"the request {request} exists already")
            seq, prev = heads.get(self.party, (0, NO_EVENT))
            time = event_time(self._now())
            event = Event(self.party, seq + 1, prev, time, request, kind, body)
            signature = self._sign(event.signing_bytes())
            event = Event(self.party, seq + 1, prev, time, request, kind, body, signature)
            try:
                check_event(event)
            except ValueError as error:
                raise LocalProtocolError(f"cannot append the event {kind.value}: {error}") from None
            self._store(event)
            return event

    def counts(self) -> dict[str, int]:
        """Return the number of stored events of each origin."""
        return {origin: seq for origin, (seq, _) in self._heads().items()}

    def heads(self) -> dict[str, str]:
        """Return the digest of the newest event of each origin."""
        return {origin: digest for origin, (_, digest) in self._heads().items()}

    def since(self, counts: Mapping[str, int]) -> list[bytes]:
        """Return the encoded events that a party with these ``counts`` lacks, by origin and seq."""
        return [record for origin, seq, _, record in self._records() if seq > counts.get(origin, 0)]

    def merge(self, records: Iterable[bytes], *, acknowledges: bool = True) -> list[Event]:
        """Store events that another party sent; store all of them or none.

        Events that the journal has already are skipped. If this party ``acknowledges``, it appends
        the event ``journaled`` for each new request.

        Returns:
            The new events.

        Raises:
            RemoteProtocolError: an event is not valid, does not follow the origin's previous event,
                differs from a stored event with the same number, or reuses a request's ID.
            IdentityError: the signature of an event is wrong, or its origin is unknown.
            StorageError: the events cannot be stored; nothing has changed.
            IntegrityError: the file is damaged.
        """
        with self.database.transaction():
            known, requested, new = self._heads(), self._requested(), []
            for record in records:
                event = _received(record)
                if self._is_stored(event, record, known):
                    continue
                self._verify_event(event)
                if event.kind is EventKind.REQUESTED:
                    _refuse_reused(event, requested)
                    requested[event.request] = event.origin
                self._store(event)
                known[event.origin] = event.seq, event.digest
                new.append(event)
            if acknowledges:
                self._acknowledge(new)
            return new

    def events(self, request: str | None = None) -> list[Event]:
        """Return the events of one request or of all requests, ordered by origin and seq."""
        found = [self._decoded(record) for _, _, _, record in self._records()]
        return [event for event in found if request in (None, event.request)]

    def check_signatures(self) -> None:
        """Verify the signatures of all events.

        Raises:
            IntegrityError: a signature is wrong.
        """
        for event in self.events():
            try:
                self._verify_event(event)
            except IdentityError as error:
                raise self.database.damaged(str(error)) from error

    def _acknowledge(self, new: Iterable[Event]) -> None:
        """Append ``journaled`` for each request in ``new`` that this party has not journaled."""
        asked = [event.request for event in new if event.kind is EventKind.REQUESTED]
        if asked:
            done = {
                event.request
                for event in self.events()
                if event.origin == self.party
                and event.kind in (EventKind.REQUESTED, EventKind.JOURNALED)
            }
            for request in asked:
                if request not in done:
                    self.append(EventKind.JOURNALED, request, JournaledBody())

    def _verify_event(self, event: Event) -> None:
        """Raise ``IdentityError`` if the signature of ``event`` is wrong."""
        try:
            self._verify(event.origin, event.signing_bytes(), event.signature)
        except IdentityError as error:
            raise IdentityError(
                f"event {event.seq} of {event.origin}: {error.args[0]}", error.hint
            ) from error

    def _is_stored(self, event: Event, record: bytes, known: Mapping[str, tuple[int, str]]) -> bool:
        """Return whether the event is stored; raise ``RemoteProtocolError`` if it does not fit."""
        seq, prev = known.get(event.origin, (0, NO_EVENT))
        where = f"event {event.seq} of {event.origin}"
        if event.seq <= seq:
            ((stored,),) = self.database.query(
                "SELECT record FROM events WHERE origin = ? AND seq = ?", (event.origin, event.seq)
            )
            if stored == record:
                return True
            raise RemoteProtocolError(
                f"two different events have the number {event.seq} of {event.origin}: the journal "
                f"of {event.origin} has a fork",
                f"{event.origin} appended events after an older journal was restored; restore its "
                "newest journal",
            )
        if event.seq > seq + 1:
            raise RemoteProtocolError(
                f"{where} leaves a gap: expected event {seq + 1}",
                "exchange the counts of events again",
            )
        if event.prev != prev:
            raise RemoteProtocolError(
                f"{where} does not follow event {seq}: the journal of {event.origin} has a fork",
                f"restore the newest journal of {event.origin}",
            )
        return False

    def _store(self, event: Event) -> None:
        record, digest = event.encode(), event.digest
        self.database.query(
            "INSERT INTO events VALUES (?, ?, ?, ?)", (event.origin, event.seq, digest, record)
        )
        self.database.query(
            "INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", (event.origin, event.seq, digest)
        )

    def _heads(self) -> dict[str, tuple[int, str]]:
        rows = self.database.query("SELECT origin, seq, digest FROM heads")
        return {origin: (seq, digest) for origin, seq, digest in rows}

    def _requested(self) -> dict[str, str]:
        """Return the origin of each request by the request's ID."""
        return {
            event.request: event.origin
            for event in self.events()
            if event.kind is EventKind.REQUESTED
        }

    def _records(self) -> list[tuple[str, int, str, bytes]]:
        return self.database.query(
            "SELECT origin, seq, digest, record FROM events ORDER BY origin, seq"
        )

    def _decoded(self, record: bytes) -> Event:
        try:
            return Event.decode(record)
        except ValueError as error:
            raise self.database.damaged(str(error)) from None

    def _check(self) -> None:
        """Raise ``IntegrityError`` if a stored event was changed or lost."""
        with self.database.transaction():
            last: dict[str, tuple[int, str]] = {}
            for origin, seq, digest, record in self._records():
                where = f"event {seq} of {origin}"
                if sha256(record).hexdigest() != digest:
                    raise self.database.damaged(f"{where} was changed")
                event, before = self._decoded(record), last.get(origin, (0, NO_EVENT))
                if (event.origin, event.seq) != (origin, seq):
                    raise self.database.damaged(f"{where} was changed")
                if (event.seq - 1, event.prev) != before:
                    raise self.database.damaged(f"{where} does not follow the event before it")
                last[origin] = seq, digest
            if last != self._heads():
                raise self.database.damaged("events were lost")


def _received(record: bytes) -> Event:
    try:
        return Event.decode(record)
    except ValueError as error:
        raise RemoteProtocolError(f"received an event that is not valid: {error}") from None


def _refuse_reused(event: Event, requested: Mapping[str, str]) -> None:
    if event.request in requested:
        raise RemoteProtocolError(
            f"event {event.seq} of {event.origin} uses the ID of a request of "
            f"{requested[event.request]}: {event.request}"
        )


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
    found = [
        view
        for view in views
        if view.state not in ENDED | CARRIED_OUT
        # Nobody can complete what a party that has left says of its columns.
        and not (view.content.by_training and view.origin not in rules.parties)
    ]
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
