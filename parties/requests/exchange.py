"""Exchange of journal events between a hub and its spokes, as tensors of bytes."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from parties.requests.duties import RequestDesk
from parties.session.party import PartyContext
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub
from protocol.message import Message

MOST_BYTES = 8 << 20  # of the events in one message, unless a single event is larger
ROUNDS = 4  # exchanges in a row, while events arrive
MOST_ROUNDS = 1000  # while a restored journal gets its own events back

Bytes = NDArray[np.uint8]


def pack_events(encoded: Iterable[bytes]) -> Bytes:
    """Return events, each encoded as JSON without line breaks, as one tensor: [bytes].

    If the events are too large for one message, only the first ones are packed; the next exchange
    sends the others.
    """
    found, size = list[bytes](), 0
    for each in encoded:
        size += len(each) + 1
        if found and size > MOST_BYTES:
            break
        found.append(each)
    return np.frombuffer(b"\n".join(found) + b"\n", np.uint8)


def unpack_events(content: Bytes) -> list[bytes]:
    """Return the events that ``pack_events`` packed as ``content``, [bytes]."""
    return [line for line in content.tobytes().split(b"\n") if line]


class JournalExchange:
    """The hub's exchange of events with the spokes that are connected.

    This party appends no event before every spoke has returned its later events of this party: if
    its journal was restored from a backup, a new event would have the number of a later one. With
    ``attends`` false, it appends none at all: other parties are absent.
    """

    def __init__(
        self, party: PartyContext, hub: Hub, desk: RequestDesk, *, attends: bool = True
    ) -> None:
        self._party, self._hub, self._desk, self._attends = party, hub, desk, attends
        self._counts: dict[str, dict[str, int]] = {}  # events that each spoke has

    def synchronise(self) -> None:
        """Exchange events with all spokes, until no event is new.

        Raises:
            RemoteProtocolError: a party does not return events of this party that it has.
        """
        for number in range(MOST_ROUNDS):
            before = self._desk.journal.counts()
            whole = [self.exchange(name) for name in self._hub]
            quiet = self._desk.journal.counts() == before and self._all_know()
            if all(whole) and (quiet or number >= ROUNDS):
                return
        raise RemoteProtocolError(
            f"another party does not return the events of {self._party.name} that it has",
            f"restore the newest journal of {self._party.name}",
        )

    def exchange(self, name: str) -> bool:
        """Exchange events with one party; return whether this party has all its own events.

        Raises:
            ProtocolError: the party was lost, or broke the protocol.
        """
        journal = self._desk.journal
        lacking = journal.since(self._counts[name]) if name in self._counts else []
        place = vfl_pb2.Place(task=vfl_pb2.UNLEARN, epoch=0, step=0, microbatch=0)
        self._hub.channels[name].place = place
        message = vfl_pb2.SyncJournal(counts=journal.counts())
        limit = self._party.limits.step_seconds
        reply = self._hub.ask(name, limit, message, pack_events(lacking))
        theirs = reply.expect(vfl_pb2.JournalEvents)
        self._counts[name] = dict(theirs.counts)
        events = unpack_events(reply.tensor(np.uint8, None))
        return self._desk.merge(events, self._counts[name], attends=self._attends and self._whole())

    def _whole(self) -> bool:
        """Whether all spokes were asked, and none has later events of this party."""
        own = self._desk.journal.counts().get(self._party.name, 0)
        asked = self._counts.keys() >= {*self._hub}
        return asked and all(each.get(self._party.name, 0) <= own for each in self._counts.values())

    def _all_know(self) -> bool:
        ours = self._desk.journal.counts()
        return all(counts == ours for counts in self._counts.values())


class SpokeExchange:
    """A spoke's part in the exchanges of events of one session.

    At the first exchange it appends no event: the hub's journal may have been restored from a
    backup, too, and only afterwards has the hub asked every other party for later events of this
    one.
    """

    def __init__(self, desk: RequestDesk) -> None:
        self._desk, self._attends = desk, False

    def merge(self, counts: Mapping[str, int], message: Message) -> bool:
        """Store the events in a message of the hub, which has the number ``counts`` of each origin.

        Returns:
            Whether this party may append events: it has all its own ones.

        Raises:
            IdentityError: a signature is wrong, or a party introduced no key.
            RemoteProtocolError: an event is invalid, or does not follow the events before it.
        """
        attends, self._attends = self._attends, True
        events = unpack_events(message.tensor(np.uint8, None))
        return self._desk.merge(events, counts, attends=attends) and attends
