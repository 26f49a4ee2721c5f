"""A client that stays: it follows the journal of requests, and carries out the server's orders."""

from collections.abc import Callable, Container, Mapping, Sequence
from time import monotonic

from configs.federated import RequestBase
from parties.horizontal.client import ClientConversation
from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.run_journal import federated_checkpoints
from parties.horizontal.party import FederatedParty
from parties.horizontal.service.desk import state_version
from parties.horizontal.service.kept_model import (
    federated_models,
    forgotten_requests,
    listed_rows,
    request_name,
    request_of,
    with_requests,
)
from parties.requests.duties import RequestDesk
from parties.requests.exchange import SpokeExchange, pack_events
from parties.requests.lifecycle import RequestState
from parties.session import handshake
from parties.session.handshake import NO_CHECKPOINTS
from parties.session.reconnect import Backoff, is_connection_loss, report_and_close
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def serve_client(
    party: FederatedParty, connect: Callable[[], Line], desk: RequestDesk, *, once: bool
) -> None:
    """Join the server again and again, and carry out its orders.

    Args:
        party: the client.
        connect: opens a connection to the server.
        desk: the client's journal of requests, and its duties.
        once: whether to end when the server says that nothing is left to do.

    Raises:
        ProtocolError: the server broke the protocol.
        StorageError: no model is kept.
    """
    federated_models(party).require()
    backoff, finished = Backoff(party), False
    while not finished:
        began = monotonic()
        try:
            finished = _run_session(party, connect, desk) and once
        except ProtocolError as error:
            if not is_connection_loss(error):
                raise
            backoff.wait(error, monotonic() - began)


def _run_session(party: FederatedParty, connect: Callable[[], Line], desk: RequestDesk) -> bool:
    """Run one session until the server's Goodbye, and return True."""
    channel = handshake.join_hub(party, connect, NO_CHECKPOINTS)
    with report_and_close(channel), channel.locate_errors():
        session = ClientSession(party, channel, desk)
        while session.handle(channel.receive_whenever(party.limits.idle_seconds)):
            pass
    return True


class ClientSession:
    """One session of a client with the kept model."""

    def __init__(self, party: FederatedParty, channel: Channel, desk: RequestDesk) -> None:
        self._party, self._channel, self._desk = party, channel, desk
        self._store = federated_models(party)
        self._orders: ClientConversation | None = None
        self._exchange = SpokeExchange(desk)
        self._started = set[str]()  # names of the requests that run

    def handle(self, message: Message) -> bool:
        """Check and handle one message; return False if it was ``Goodbye``, and else True.

        Raises:
            RemoteProtocolError: the agreement, or the journal of requests, does not allow the
                order.
        """
        match message.body:
            case vfl_pb2.SyncJournal() as theirs:
                self._synchronise(dict(theirs.counts), message)
            case vfl_pb2.Goodbye():
                return False
            case vfl_pb2.LoadVector() | vfl_pb2.SwitchBranch() | vfl_pb2.KeepVersion():
                return self._conversation().handle(message)
            case _:
                if not self._running():
                    raise RemoteProtocolError(
                        "the server sent an order, but no request of the journal is being carried "
                        "out"
                    )
                return self._conversation().handle(message)
        return True

    def _synchronise(self, counts: dict[str, int], message: Message) -> None:
        whole = self._exchange.merge(counts, message)
        if whole and self._started != {each.name for each in self._running()}:
            self._started, self._orders = {each.name for each in self._running()}, None
        if whole and not self._running():
            # Of a batch that was put into quarantine: a later one starts from all rows again.
            federated_checkpoints(self._party).clear()
        if whole:
            sent = [self._channel.sent_transcript]
            state_version(self._party, self._desk, self._store, sent)
        lacking = self._desk.journal.since(counts)
        reply = vfl_pb2.JournalEvents(counts=self._desk.journal.counts())
        self._channel.send(reply, pack_events(lacking))

    def _conversation(self) -> ClientConversation:
        """Carries out the server's orders for the requests that run."""
        if self._orders is None:
            running = self._running()
            names = {each.name for each in running}
            known = forgotten_requests(self._party, self._desk.requests())
            done = [each for each in known if each.name not in names]
            requests = [*done, *running]
            listed = listed_rows(self._party, requests, self._desk.journal)
            compares = self._party.agreement.requests.audit == "full"
            own = with_requests(self._party, requests, listed, compares=compares)
            store = ClientStore(own, done, self._desk.remember)
            self._warn_of_missing_rows(store, listed)
            self._orders = ClientConversation(own, self._channel, store)
        return self._orders

    def _warn_of_missing_rows(
        self, store: ClientStore, listed: Mapping[str, Container[bytes]]
    ) -> None:
        """Warn if the data lacks rows that a request by list names: no method can read them."""
        for view in self._desk.requests():
            name, count = request_name(view.id), view.content.count or 0
            if view.state is not RequestState.RUNNING or name not in listed:
                continue
            if (found := store.count_rows(listed[name])) < count:
                self._party.progress.warn(
                    f"{count - found} of the {count} rows or texts of the request {view.id} are "
                    "not among the training rows any more, so they are not read to forget them"
                )

    def _running(self) -> Sequence[RequestBase]:
        """The journaled requests that every party has approved and the server has started."""
        return [
            request_of(self._party.agreement, view)
            for view in self._desk.requests()
            if view.state is RequestState.RUNNING
        ]
