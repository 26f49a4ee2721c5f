"""Exchange of journals between the active party and the passive parties that are connected."""

import numpy as np

from parties.requests.duties import RequestDesk
from parties.requests.exchange import pack_events, unpack_events
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub

ROUNDS = 4  # exchanges in a row, while events arrive
MOST_ROUNDS = 1000  # while a restored journal gets its own events back


class JournalExchange:
    """The active party's exchange of events with the parties of a hub.

    With ``attends`` false, this party appends no event: other parties are absent.
    """

    def __init__(
        self, party: VerticalParty, hub: Hub, desk: RequestDesk, *, attends: bool = True
    ) -> None:
        self._party, self._hub, self._desk, self._attends = party, hub, desk, attends
        self._counts: dict[str, dict[str, int]] = {}  # events that each spoke has

    def synchronise(self) -> None:
        """Exchange events with all passive parties, until no event is new.

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
        return self._desk.merge(events, self._counts[name], attends=self._attends)

    def _all_know(self) -> bool:
        ours = self._desk.journal.counts()
        return all(counts == ours for counts in self._counts.values())
