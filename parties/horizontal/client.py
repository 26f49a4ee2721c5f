"""Client program: execute the server's tasks on the client's rows, which are never sent."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from parties.common.errors import DataError
from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.wire import (
    DELIVERED,
    SentEvaluation,
    SentTask,
    VectorAssembler,
    split_vector,
)
from parties.horizontal.local.local_task import (
    FORGETTING_AIMS,
    SLOTS,
    LocalTaskError,
    needed_slots,
    task_differences,
)
from parties.horizontal.party import FederatedParty
from parties.horizontal.secure.masked_client import MaskedSumClient
from parties.horizontal.service.desk import federated_rules
from parties.horizontal.service.kept_model import (
    forgotten_requests,
    listed_rows,
    with_requests,
)
from parties.requests.journal import journal_of
from parties.requests.lifecycle import requests_of
from parties.session import handshake
from parties.session.handshake import NO_CHECKPOINTS
from parties.session.reconnect import Reconnect, report_and_close
from parties.session.store.model_store import VersionFacts
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.dataclass_codec import decode, encode
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.line import Line
from protocol.message import Message

if TYPE_CHECKING:
    from parties.horizontal.secure.encrypted_client import EncryptedSumClient

MODEL = "model"  # slot of the model that a task trains or evaluates
HINT = "use the same version of vfl and the same agreement at both parties"


def run_client(party: FederatedParty, connect: Callable[[], Line]) -> None:
    """Join the server and execute the server's tasks until the run ends; reconnect if needed."""
    store, done = _store_of(party), ReplyCount()
    reconnect = Reconnect(party, lambda: done.replies)
    busy = party.limits.idle_seconds  # the server accepts clients between rounds only
    while True:
        channel = reconnect.join(
            partial(handshake.join_hub, party, connect, NO_CHECKPOINTS, busy_seconds=busy)
        )
        try:
            _converse(party, channel, store, done)
            return store.clear()
        except ProtocolError as error:
            reconnect.wait_or_raise(error)


def _store_of(party: FederatedParty) -> ClientStore:
    """The store of a client that trains, without the rows that earlier requests have deleted.

    Raises:
        DataError: all rows were forgotten.
    """
    with journal_of(party) as journal:
        events = [] if journal is None else journal.events()
        views = requests_of(events, federated_rules(party.agreement))
        forgotten = forgotten_requests(party, views)
        listed = listed_rows(party, forgotten, journal)
    if not forgotten:
        return ClientStore(party)
    known = with_requests(party, (*forgotten, *party.agreement.unlearn), listed)
    store = ClientStore(known, forgotten)
    if not store.has_rows:
        raise DataError(
            f"all rows of {party.name} were forgotten by earlier requests",
            "train without this client",
        )
    party.progress.warn(f"the rows of {len(forgotten)} earlier requests to forget are left out")
    return store


@dataclass(slots=True)
class ReplyCount:
    """Number of messages that a client has handled in all its connections to the server."""

    replies: int = 0


def _converse(
    party: FederatedParty, channel: Channel, store: ClientStore, done: ReplyCount
) -> None:
    with report_and_close(channel), channel.locate_errors():
        conversation = ClientConversation(party, channel, store)
        while conversation.handle(channel.receive(party.limits.idle_seconds)):
            done.replies += 1


class ClientConversation:
    """Handles the server's messages at a client, from the handshake to the end of the run."""

    def __init__(self, party: FederatedParty, channel: Channel, store: ClientStore) -> None:
        self._party, self._channel, self._store = party, channel, store
        self._sums = _sums(party, channel)
        self._agreed = party.local_tasks(party.agreement)
        self._slots: dict[str, Tensor] = {}
        self._incomplete: dict[str, VectorAssembler] = {}

    def handle(self, message: Message) -> bool:
        """Handle a message of the server; return whether the run continues.

        Raises:
            RemoteProtocolError: the message does not match the agreement, or the state of this
                client cannot answer it; nothing has changed.
        """
        self._party.progress.follow(self._channel.place)
        match message.body:
            case vfl_pb2.LoadVector() as load:
                self._load(load, message)
            case vfl_pb2.RunTask() as task:
                self._run_task(task)
            case vfl_pb2.EvaluateRows() as evaluation:
                self._evaluate(evaluation)
            case vfl_pb2.SelectRequest() as selection:
                self._select_request(selection.request)
            case vfl_pb2.SwitchBranch() as switch:
                parent = switch.parent if switch.HasField("parent") else None
                self._store.switch_branch(switch.branch, parent)
                self._channel.send(vfl_pb2.Done())
            case vfl_pb2.Purge():
                self._purge()
            case vfl_pb2.KeepVersion() as version:
                self._keep(version)
            case vfl_pb2.Goodbye():
                if DELIVERED in self._slots:
                    self._store.deliver(self._slots[DELIVERED])
                return False
            case _:
                self._sums.handle(message)
        return True

    def _load(self, load: vfl_pb2.LoadVector, message: Message) -> None:
        if load.slot not in (MODEL, DELIVERED, *SLOTS):
            raise RemoteProtocolError(
                f"the server sent a vector {load.slot!r}; expected one of "
                f"{', '.join((MODEL, DELIVERED, *SLOTS))}"
            )
        if load.size != self._store.size:
            raise RemoteProtocolError(
                f"the server sent a model of {load.size} elements; expected {self._store.size}",
                "compare the agreements: both parties need the same model",
            )
        empty = VectorAssembler(self._store.size, np.dtype(np.float32))
        vector = self._incomplete.setdefault(load.slot, empty).add(load, message)
        if vector is None:
            return
        self._slots[load.slot] = vector
        del self._incomplete[load.slot]

    def _run_task(self, message: vfl_pb2.RunTask) -> None:
        sent = decode(message, SentTask)
        self._check_task(sent)
        slots = {name: self._slot(name) for name in (MODEL, *sent.slots)}
        self._sums.require_sum()
        try:
            found = self._store.run_task(sent.rows, sent.task, slots)
        except LocalTaskError as error:
            raise RemoteProtocolError(
                f"the server sent a local task that this client cannot execute: {error}",
                HINT,
            ) from error
        vector, update = self._sums.protect(found)
        for start, part in split_vector(vector):
            self._channel.send(vfl_pb2.Update(start=start, size=len(vector)), part)
        self._channel.send(update)

    def _check_task(self, sent: SentTask) -> None:
        """Check a local task against those of the agreed methods, before anything is trained."""
        task = sent.task
        found = min((task_differences(each, task) for each in self._agreed), key=len)
        if found:
            aims = ", ".join(sorted({each.aim for each in self._agreed}))
            raise RemoteProtocolError(
                f"the server sent a local task with the aim {task.aim!r} that differs from every "
                f"task of the agreement, from the nearest one in {', '.join(found)}; legal aims: "
                f"{aims}",
                HINT,
            )
        if task.aim in FORGETTING_AIMS and sent.rows != "forgotten":
            raise RemoteProtocolError(
                f"the server sent a local task with the aim {task.aim!r} on {sent.rows} rows; "
                "expected forgotten rows"
            )
        needed = needed_slots(task)
        if not {*needed} <= {*sent.slots} <= {*SLOTS}:
            raise RemoteProtocolError(
                f"the server sent a local task with the aim {task.aim!r} and the vectors "
                f"{', '.join(sent.slots)[:200] or 'none'}; expected {', '.join(needed) or 'none'}"
            )

    def _evaluate(self, message: vfl_pb2.EvaluateRows) -> None:
        sent = decode(message, SentEvaluation)
        found = self._store.evaluate(sent.rows, self._slot(MODEL), sent.parameters)
        self._channel.send(encode(found, vfl_pb2.Metrics))

    def _select_request(self, name: str) -> None:
        if not self._store.select_request(name):
            raise RemoteProtocolError(
                f"the server selected the request {name!r}, which is not in the agreement"
            )
        self._channel.send(vfl_pb2.Done())

    def _purge(self) -> None:
        if not self._store.has_request:
            raise RemoteProtocolError(
                "the server ordered a purge, but it selected no request before"
            )
        purged = self._store.purge()
        self._slots.clear()
        self._channel.send(vfl_pb2.Done(purged=purged))

    def _keep(self, message: vfl_pb2.KeepVersion) -> None:
        if self._party.agreement.requests.keep != "model":
            raise RemoteProtocolError(
                "the server ordered to keep a model, but the agreement keeps none", HINT
            )
        facts = decode(message.version, VersionFacts)
        self._store.deliver(self._slot(DELIVERED))
        self._store.keep(message.number, facts, self._slot(DELIVERED))
        self._channel.send(vfl_pb2.Done())

    def _slot(self, name: str) -> Tensor:
        if name not in self._slots:
            raise RemoteProtocolError(
                f"the server sent a task that needs the vector {name!r}, but did not send it"
            )
        return self._slots[name]


def _sums(party: FederatedParty, channel: Channel) -> "MaskedSumClient | EncryptedSumClient":
    """The client's side of secure aggregation; TenSEAL is loaded only for the kind ``ckks``."""
    if party.agreement.aggregation.kind != "ckks":
        return MaskedSumClient(party, channel)
    from parties.horizontal.secure.encrypted_client import EncryptedSumClient

    return EncryptedSumClient(party, channel)
