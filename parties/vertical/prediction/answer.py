"""The passive party's side of prediction: embeddings of the rows that are asked for, no more."""

import random
from collections.abc import Callable
from time import sleep

import numpy as np
import torch

from parties.common.errors import ABSENT, public
from parties.common.shared_randomness import Index
from parties.common.traffic import phase_of
from parties.session import handshake as join
from parties.session.party import Party
from parties.vertical.alignment.align import follow
from parties.vertical.engine.training_loop import widest_pass
from parties.vertical.prediction.trained import Trained, inputs, sought
from parties.vertical.privacy.one_time_release import Frozen
from parties.vertical.privacy.predicted import predicted
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.envelope import task_name
from protocol.errors import Aborted, PeerSilent, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message


def answer_predictions(party: Party, trained: Trained, connect: Callable[[], Line]) -> None:
    """Join and answer until the hub says goodbye; when another party leaves, join anew.

    Raises:
        ProtocolError: the hub is gone, refuses us or breaks the protocol.
    """
    while not _answered(party, trained, connect):
        sleep(random.uniform(0.2, 1.0))  # noqa: S311  jitter, no secret


def _answered(party: Party, trained: Trained, connect: Callable[[], Line]) -> bool:
    """One conversation; whether it went to its end, or ended because another party is absent."""
    lines: list[Line] = []

    def dial() -> Line:
        lines.append(connect())
        return lines[-1]

    try:
        _converse(party, trained, join.greet(party, dial))
    except Aborted as error:
        if error.code != ABSENT:
            raise
        party.watch.warn(f"{error}; joining anew")
        return False
    finally:
        for line in lines:
            line.close()
    return True


def _converse(party: Party, trained: Trained, channel: Channel) -> None:
    """Align and answer until the goodbye."""
    try:
        answerer = Answerer(party, trained, channel)
        while answerer.answer(_next(channel, party.agreement.limits.idle_seconds)):
            pass
    except Exception as error:
        channel.abort(*public(error))
        raise


def _next(channel: Channel, patience: float) -> Message:
    """The next question, however long nobody asks: the line itself ends when the hub is gone."""
    while True:
        try:
            return channel.receive(patience)
        except PeerSilent:
            continue


class Answerer:
    """A passive party between greeting and goodbye."""

    def __init__(self, party: Party, trained: Trained, channel: Channel) -> None:
        """Find the rows that will be asked for; raises like ``follow``."""
        self._party, self._channel = party, channel
        everything = np.arange(len(party.holding))
        try:
            opened = channel.receive(party.agreement.limits.idle_seconds).expect(vfl_pb2.Open)
            rows = follow(sought(party, everything), channel, opened).rows
        except PeerSilent as error:  # the hub is there, but others did not come
            raise Aborted(
                f"said nothing in {party.agreement.limits.idle_seconds:g} s", ABSENT
            ) from error
        found = inputs(party, trained, rows)
        if found is None:
            raise LookupError("a passive party always has features")
        self._inputs = found
        ids = [party.holding.ids[row] for row in rows.tolist()]
        frozen = Frozen(trained.network, found, ids)
        self._sent = predicted(party, channel.session or b"", frozen)

    def answer(self, message: Message) -> bool:
        """Do what one message says; whether there is more to come."""
        place = self._channel.place
        self._party.watch.at(place)
        with self._party.ledger.clock(phase_of(message.kind, task_name(place))):
            match message.body:
                case vfl_pb2.Look():
                    self._embed(message.tensor(np.int64, None))
                case vfl_pb2.Goodbye():
                    return False
                case _:
                    hub = self._channel.terms.peer
                    raise RemoteProtocolError(f"{hub} said {message.kind} to a party that predicts")
        return True

    @torch.no_grad()
    def _embed(self, rows: Index) -> None:
        count, most = len(self._inputs), widest_pass(self._party.agreement)
        if len(rows) > most or rows.min() < 0 or rows.max() >= count:
            raise RemoteProtocolError(
                f"{self._channel.terms.peer} asks for {len(rows)} rows; "
                f"legal are {most} at most, between 0 and {count - 1}"
            )
        embedding, sound = self._sent(rows)
        report = None if sound else vfl_pb2.Report(diverged=True)
        self._channel.send(vfl_pb2.Embedding(report=report), embedding.numpy())
