"""Journals of several parties with Ed25519 keys and a clock that tests set."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from parties.requests.events import (
    DecisionBody,
    EventKind,
    RequestedBody,
    event_time,
    new_request_id,
)
from parties.requests.journal import RequestJournal
from parties.requests.lifecycle import RequestRules, RequestView, requests_of
from protocol.errors import IdentityError

START = datetime(2026, 11, 2, 9, tzinfo=UTC)
NAMES = ("bank", "shop", "post")  # bank is the hub


@dataclass
class Clock:
    """The present time of all parties."""

    now: datetime = START

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Federation:
    """Keys, clock and journals of some parties."""

    folder: Path
    names: Sequence[str]
    clock: Clock = field(default_factory=Clock)
    journals: dict[str, RequestJournal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = {
            name: Ed25519PrivateKey.from_private_bytes(name.encode().ljust(32, b"."))
            for name in self.names
        }
        self.rules = RequestRules(tuple(self.names), self.names[0])

    def verify(self, party: str, message: bytes, signature: bytes) -> None:
        if party not in self.keys:
            raise IdentityError(f"no key of {party} is known")
        try:
            self.keys[party].public_key().verify(signature, message)
        except InvalidSignature:
            raise IdentityError(f"the signature of {party} is wrong") from None

    def path(self, name: str) -> Path:
        return self.folder / name / "requests.sqlite"

    def open(self, name: str) -> RequestJournal:
        journal = RequestJournal(
            self.path(name), name, self.keys[name].sign, self.verify, self.clock
        )
        self.journals[name] = journal
        return journal

    def exchange(self, *names: str) -> None:
        """Let the parties exchange events with the hub, until nothing is new."""
        hub = self.journals[self.names[0]]
        for _ in range(2):
            for name in names or self.names[1:]:
                spoke = self.journals[name]
                hub.merge(spoke.since(hub.counts()))
                spoke.merge(hub.since(spoke.counts()))
                hub.merge(spoke.since(hub.counts()))

    def views(self, name: str) -> list[RequestView]:
        return requests_of(self.journals[name].events(), self.rules)

    def ask(self, name: str, rows: tuple[int, ...] = (1, 2), request: str = "") -> str:
        """Append a request for ``rows`` at a party; return the request's ID."""
        request = request or new_request_id(self.clock.now)
        self.journals[name].append(EventKind.REQUESTED, request, content(rows, self.clock.now))
        return request

    def approve(self, request: str, *names: str) -> None:
        for name in names or self.names:
            self.journals[name].append(EventKind.APPROVED, request, DecisionBody())


def content(rows: tuple[int, ...] = (1, 2), received: datetime = START) -> RequestedBody:
    return RequestedBody(
        subjects_root="0" * 64,
        kind="rows",
        rows=rows,
        ground="consent withdrawn",
        received_at=event_time(received),
        due_at=event_time(received + timedelta(days=30)),
    )


@contextmanager
def federation(folder: Path, names: Sequence[str] = NAMES) -> Iterator[Federation]:
    """A federation with open journals."""
    with ExitStack() as stack:
        made = Federation(folder, names)
        for name in names:
            stack.callback(made.open(name).close)
        yield made
