"""A passive party that stays: it follows the journal of requests, and answers the active party."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

import numpy as np
import torch

from models.arithmetic import all_within
from parties.common.shared_randomness import Index
from parties.requests.duties import RequestDesk
from parties.requests.exchange import SpokeExchange, pack_events, unpack_events
from parties.requests.lifecycle import RequestState, largest_version
from parties.session import handshake
from parties.session.reconnect import Backoff, is_connection_loss, report_and_close
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.party_state import PartyState
from parties.vertical.engine.training_loop import largest_batch
from parties.vertical.kept_model import erase_replaced_models, party_models, present_version
from parties.vertical.passive import PassiveSession, RequestHooks
from parties.vertical.resume import start_kept_state
from parties.vertical.saved_model import restore_local_model
from parties.vertical.service.departure import request_columns, state_departures
from parties.vertical.service.replay_window import ReplayWindow
from parties.vertical.service.statement import PresentModel, state_new_version
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def serve_passive(
    party: VerticalParty, connect: Callable[[], Line], desk: RequestDesk, *, once: bool
) -> None:
    """Join the active party again and again, and carry out its orders.

    Args:
        party: this party.
        connect: opens a connection to the active party.
        desk: the party's journal of requests, and its duties.
        once: whether to end when the active party says that nothing is left to do.

    Raises:
        ProtocolError: the active party broke the protocol.
    """
    backoff, finished = Backoff(party), False
    while not finished:
        began = monotonic()
        try:
            finished = _run_session(party, connect, desk) and once
        except ProtocolError as error:
            if not is_connection_loss(error):
                raise
            backoff.wait(error, monotonic() - began)


def _run_session(party: VerticalParty, connect: Callable[[], Line], desk: RequestDesk) -> bool:
    """Run one session until the active party's Goodbye, and return True."""
    offer = party_models(party).offer()
    channel = handshake.join_hub(party, connect, offer)
    with report_and_close(channel), channel.locate_errors():
        session = ServingSession(party, channel, desk)
        while session.handle(channel.receive_whenever(party.limits.idle_seconds)):
            pass
    return True


class ServingSession:
    """The session of a passive party with a kept model.

    Attributes:
        session: carries out the orders that a training has, too.
    """

    def __init__(self, party: VerticalParty, channel: Channel, desk: RequestDesk) -> None:
        self._party, self._channel, self._desk = party, channel, desk
        self._store = party_models(party)
        hooks = RequestHooks(self._started, self._remember, self._ended, self._made)
        waits = party.agreement.requests.absent == "fallback"
        learn = self._exchange_events if waits else None
        start = partial(start_kept_state, party, channel, self._store, synchronise=learn)
        self.session = PassiveSession(party, channel, self._store, start, hooks)
        erase_replaced_models(party)  # every party has this version
        self._settled, self._exchange = False, SpokeExchange(desk)
        self._window = ReplayWindow(desk, party, self._store)
        restore_local_model(party, self._store, self.session.state, self.session.run)

    def handle(self, message: Message) -> bool:
        """Check and handle one message; return False if it was ``Goodbye``, and else True.

        Raises:
            RemoteProtocolError: the agreement or the state of this party does not allow the order.
        """
        match message.body:
            case vfl_pb2.SyncJournal() as theirs:
                self._synchronise(dict(theirs.counts), message)
            case vfl_pb2.Predict():
                self._predict(message.tensor(np.int64, None))
            case vfl_pb2.Goodbye():
                return False
            case _:
                return self.session.handle(message)
        return True

    def _synchronise(self, counts: dict[str, int], message: Message) -> None:
        whole = self._exchange.merge(counts, message)
        if whole and not self._settled:  # what a crash interrupted after the last version
            self._ended(self.session.state, self.session.run)
            request_columns(self._party, self._store, self._desk)
            self._settled = True
        if whole:
            self._window.erase_expired()
            sent = [self._channel.sent_transcript]
            state_departures(self._party, self._store, self._desk, sent)
        self._send_events(counts)

    def _exchange_events(self, counts: dict[str, int], message: Message) -> None:
        """Learn of requests while the active party waits for another party."""
        self._desk.merge(unpack_events(message.tensor(np.uint8, None)), counts, attends=False)
        self._send_events(counts)

    def _send_events(self, counts: dict[str, int]) -> None:
        """Send the active party the events that it lacks, by its ``counts``."""
        lacking = self._desk.journal.since(counts)
        reply = vfl_pb2.JournalEvents(counts=self._desk.journal.counts())
        self._channel.send(reply, pack_events(lacking))

    def _ended(self, state: PartyState, run: bytes) -> None:
        """Erase what knows the forgotten rows, and state it."""
        present = PresentModel(self._party, self._store, state, run)
        state_new_version(self._desk, present, [self._channel.sent_transcript])

    def _started(self, requests: Sequence[str], *, corrects: bool) -> Index | None:
        """The rows of journaled requests that may be carried out; None if one may not.

        ``corrects``: whether the requests replace labels.
        """
        views = {each.id: each for each in self._desk.requests()}
        chosen = [views.get(each) for each in requests]
        rows = set[int]()
        for view in chosen:
            if view is None or view.state is not RequestState.RUNNING or view.rows is None:
                return None
            if view.corrects is not corrects:
                return None
            rows |= set(view.rows)
        return np.array(sorted(rows), np.int64) if chosen else None

    def _made(self) -> int:
        return largest_version(self._desk.journal.events(), self._party.agreement.active)

    def _remember(self, state: PartyState) -> None:
        """Add the IDs of the rows that are erased next to the list of forgotten IDs."""
        running = [each for each in self._desk.requests() if each.state is RequestState.RUNNING]
        self._desk.forget_ids(state.features.ids(), [each.id for each in running])

    def _predict(self, rows: Index) -> None:
        """Send the embeddings of common ``rows``, [rows]; zeros for rows of open requests."""
        common, limit = self.session.state.features.rows, largest_batch(self._party.agreement)
        if len(rows) > limit or rows.min() < 0 or rows.max() >= len(common):
            raise RemoteProtocolError(
                f"{self._channel.terms.peer} requests {len(rows)} rows; expected at most {limit} "
                f"rows with indices from 0 to {len(common) - 1}"
            )
        frozen = self._desk.frozen_rows(present_version(self._store))
        withheld = np.isin(rows, sorted(frozen)) | (common[rows] < 0)
        width = self._party.agreement.parties[self._party.name].width or 0
        width *= self._party.agreement.sharding.shards
        sent = torch.zeros((len(rows), width), dtype=self.session.state.features.dtype)
        if not withheld.all():
            sent[torch.from_numpy(~withheld)] = self.session.predict(rows[~withheld])
        report = None
        if not all_within([sent], self._party.agreement.limits.magnitude):
            sent, report = torch.zeros_like(sent), vfl_pb2.BlockReport(diverged=True)
        reply = vfl_pb2.Embedding(report=report, withheld=np.flatnonzero(withheld).tolist())
        self._channel.send(reply, sent.numpy())
