"""The client's role program: answer what the server asks, from rows that never leave."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from parties.common.errors import public
from parties.horizontal.client_store import Kept
from parties.horizontal.engine.cohort import Whose
from parties.horizontal.engine.wire import DELIVERED, KINDS, Gathering, parts, understood
from parties.horizontal.local.local_task import Unteachable
from parties.horizontal.party import FederatedParty
from parties.horizontal.secure.client_sums import ClientSums
from parties.session import handshake as join
from parties.session.checkpoint_offer import NOTHING
from parties.vertical.resume import Losses
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message

if TYPE_CHECKING:
    from parties.horizontal.secure.client_ciphers import ClientCiphers


def run_client(party: FederatedParty, connect: Callable[[], Line]) -> None:
    """Join and answer until the server says goodbye; come back when the line is lost."""
    kept, done = Kept(party), Done()
    losses = Losses(party, lambda: done.answers)
    busy = party.agreement.limits.idle_seconds  # the server greets between two rounds alone
    while True:
        channel = losses.retry(partial(join.greet, party, connect, NOTHING, busy=busy))
        try:
            _session(party, channel, kept, done)
            return kept.clear()
        except ProtocolError as error:
            losses.bear(error)


@dataclass(slots=True)
class Done:
    """What a client has got done, in all its conversations."""

    answers: int = 0


def _session(party: FederatedParty, channel: Channel, kept: Kept, done: Done) -> None:
    try:
        answerer = Answerer(party, channel, kept)
        while answerer.answer(channel.receive(party.agreement.limits.idle_seconds)):
            done.answers += 1
    except Exception as error:
        channel.abort(*public(error))
        raise
    finally:
        channel.close()


class Answerer:
    """A client between greeting and goodbye."""

    def __init__(self, party: FederatedParty, channel: Channel, kept: Kept) -> None:
        self._party, self._channel, self._kept = party, channel, kept
        self._sums = _sums(party, channel)
        self._slots: dict[str, Tensor] = {}
        self._coming: dict[str, Gathering] = {}

    def answer(self, message: Message) -> bool:
        """Do what one message says; whether there is more to come."""
        self._party.watch.at(self._channel.place)
        match message.body:
            case vfl_pb2.Load() as load:
                self._load(load, message)
            case vfl_pb2.Teach() as teach:
                self._teach(teach)
            case vfl_pb2.Read() as read:
                self._read(read)
            case vfl_pb2.Attend() as attend:
                self._attend(attend.request)
            case vfl_pb2.Follow() as follow:
                parent = follow.parent if follow.HasField("parent") else None
                self._kept.follow(follow.line, parent)
                self._channel.send(vfl_pb2.Done())
            case vfl_pb2.Purge():
                self._purge()
            case vfl_pb2.Goodbye():
                if DELIVERED in self._slots:
                    self._kept.deliver(self._slots[DELIVERED])
                return False
            case _:
                self._sums.answer(message)
        return True

    def _load(self, load: vfl_pb2.Load, message: Message) -> None:
        empty = Gathering(self._kept.size, np.dtype(np.float32))
        vector = self._coming.setdefault(load.slot, empty).add(load, message)
        if vector is None:
            return
        if len(vector) != self._kept.size:
            raise RemoteProtocolError(
                f"said a model of {len(vector)} numbers, and the agreed one has {self._kept.size}"
            )
        self._slots[load.slot] = vector
        del self._coming[load.slot]

    def _teach(self, teach: vfl_pb2.Teach) -> None:
        kind, lesson = understood(teach)
        slots = {name: self._slot(name) for name in ("model", *teach.slots)}
        try:
            found = self._kept.answer(kind, lesson, slots)
        except Unteachable as error:
            raise RemoteProtocolError(
                f"said a lesson that cannot be learned here: {error}",
                "do both have the same version and agreement?",
            ) from error
        vector, learned = self._sums.covered(found)
        for start, part in parts(vector):
            self._channel.send(vfl_pb2.Change(start=start, size=len(vector)), part)
        self._channel.send(learned)

    def _read(self, read: vfl_pb2.Read) -> None:
        if read.rows not in KINDS:
            raise RemoteProtocolError(f"asks for rows {read.rows}, which a client does not have")
        whose: Whose = "sent" if read.sent else "own"
        found = self._kept.measure(KINDS[read.rows], self._slot("model"), whose)
        self._channel.send(
            vfl_pb2.Measured(
                rows=found.rows,
                right=found.right,
                loss=found.loss,
                odds=found.odds,
                chance=found.chance,
            )
        )

    def _attend(self, name: str) -> None:
        if not self._kept.attend(name):
            raise RemoteProtocolError("names a request that the agreement does not have")
        self._channel.send(vfl_pb2.Done())

    def _purge(self) -> None:
        gone = self._kept.purge()
        self._slots.clear()
        self._channel.send(vfl_pb2.Done(purged=gone))

    def _slot(self, name: str) -> Tensor:
        if name not in self._slots:
            raise RemoteProtocolError(f"refers to a vector {name!r} that it did not send")
        return self._slots[name]


def _sums(party: FederatedParty, channel: Channel) -> "ClientSums | ClientCiphers":
    """Our side of sums in which no update is seen; TenSEAL is loaded where it is agreed on."""
    if party.agreement.aggregation.kind != "ckks":
        return ClientSums(party, channel)
    from parties.horizontal.secure.client_ciphers import ClientCiphers

    return ClientCiphers(party, channel)
