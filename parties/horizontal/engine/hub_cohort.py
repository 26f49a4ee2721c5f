"""Cohort of clients that are connected to the server; lost clients may reconnect."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan, nan
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.cohort import (
    DIVERGED_HINT,
    AbsentClientError,
    MeanUpdate,
    Member,
    quorum_count,
    weighted_mean,
)
from parties.horizontal.engine.wire import (
    DELIVERED,
    SentEvaluation,
    SentTask,
    VectorAssembler,
    split_vector,
)
from parties.horizontal.local.local_task import (
    Aim,
    LocalTask,
    LocalUpdate,
    ParameterSource,
    RowMetrics,
    Slots,
)
from parties.horizontal.local.rows import RowKind, TrainingKind
from parties.horizontal.local.score_histogram import BINS
from parties.horizontal.secure.masked_hub import MaskedSumHub
from parties.horizontal.secure.masking.pair_keys import Entropy
from parties.session.store.model_store import VersionFacts
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.dataclass_codec import decode, encode
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.hub import Hub
from protocol.message import Body

if TYPE_CHECKING:
    from parties.horizontal.secure.encrypted_hub import EncryptedSumHub

T = TypeVar("T")
PLACE = vfl_pb2.Place(task=vfl_pb2.ROUND, epoch=0, step=0, microbatch=0)
REPORT_AIMS: tuple[Aim, ...] = ("inputs", "classes")  # reports with another length than the model
SUM_RANGE_HINT = (
    f"{DIVERGED_HINT}; if the client's log says that rows times loss is too large, give the client "
    "fewer rows"
)
RECONNECT_PAUSE = 0.1  # seconds between two looks for a lost client that reconnected
Arrivals = Callable[[], Mapping[str, Channel]]
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class CohortSettings:
    """Settings of the server's communication with the clients."""

    quorum: float  # smallest fraction of a round's members that must reply
    reply_timeout: float  # seconds that a client may take for a reply
    # Smallest allowed number of members whose updates are summed; None: no secure aggregation.
    min_contributors: int | None = None
    entropy: Entropy = os.urandom  # source of random bytes
    # Clients that may have the keys that decrypt sums; an empty tuple means all clients; None if
    # the sums are not encrypted.
    key_holders: tuple[str, ...] | None = None
    # Seconds that the server waits for a lost client to reconnect, if a request needs all clients,
    # or a round or an evaluation needs the client for its quorum.
    rejoin_timeout: float = 0.0


class HubCohort:
    """The clients that are connected to the server.

    Args:
        names: names of all clients of the agreement.
        channels: the channel of each connected client, by name.
        arrivals: function that returns the channels of clients that connected since its last call.
        settings: quorum, timeouts and secure aggregation.
        warn: function that is called with a message about each lost client.
    """

    def __init__(
        self,
        names: Sequence[str],
        channels: Mapping[str, Channel],
        arrivals: Arrivals,
        settings: CohortSettings,
        warn: Warn,
    ) -> None:
        self.clients, self._channels, self._arrivals = tuple(names), dict(channels), arrivals
        self.quorum, self._reply_timeout, self._warn = settings.quorum, settings.reply_timeout, warn
        self._rejoin_timeout = settings.rejoin_timeout
        self._loaded: dict[str, dict[str, Tensor]] = {name: {} for name in channels}
        self._bounded: dict[str, Tensor] = {}  # the last vector of each slot that passed the check
        self._sums = self._secure_sums(settings)
        self._request: str | None = None
        self._branch: str | None = None
        self._parents: dict[str, str] = {}  # the branch from which each branch started
        self._late = set[str]()  # lost clients that did not reconnect in time
        for channel in channels.values():
            channel.place = PLACE

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        """Yield each member's update in the order of the members; skip lost members.

        If too few members would reply for the quorum, a lost client has time to reconnect, and
        executes its task then. A client that counts as two members executes two tasks, one after
        the other. ``slots`` are vectors by name, ``[d]`` each.

        Raises:
            PolicyError: with secure aggregation, the server receives only sums of updates.
        """
        if self._sums is not None:
            raise PolicyError(
                "the method needs the update of each client, but with secure aggregation the "
                "server receives only the sum of the updates",
                "choose an unlearning method that needs only sums of updates",
            )
        self._admit()
        others = tuple(name for name in slots if name != "model")
        asked = list(members)
        spare = self._spare(len(asked))

        def receive(channel: Channel) -> LocalUpdate:
            return self._receive_update(channel, task.aim, slots)

        for wave in _waves(asked):
            of = {member.client: member for member in wave}
            tasks = _task_messages({member.kind for member in wave}, others, task)
            bodies = {name: tasks[each.kind] for name, each in of.items()}
            lost = len(wave)
            for name, found in self._gather(bodies, slots, receive, spare):
                lost -= 1
                yield of[name], found
            spare -= lost

    def mean_update(self, members: Sequence[Member], task: LocalTask, slots: Slots) -> MeanUpdate:
        """Return the members' mean update; ``slots`` maps names to sent vectors, ``[d]`` each.

        Raises:
            PolicyError: fewer members replied than the quorum or secure aggregation requires.
            Diverged: an update is not finite, or too large for secure aggregation.
        """
        if self._sums is None:
            return weighted_mean(self, members, task, slots)
        self._admit()
        kinds = {member.client: member.kind for member in members}
        others = tuple(name for name in slots if name != "model")

        dtype, size = self._sums.dtype, len(slots["model"])

        def collect(names: Sequence[str]) -> dict[str, NDArray[Any]]:
            tasks = _task_messages({kinds[name] for name in names}, others, task)
            here = [n for n in names if self._try(n, lambda c: self._load(c, slots))]
            here = [n for n in here if self._try(n, _sending(tasks[kinds[n]]))]
            replies = {n: self._try(n, lambda c: self._receive_vector(c, dtype)) for n in here}
            found = {name: each for name, each in replies.items() if each is not None}
            # A client sends a NaN loss instead of an update that does not fit.
            unfit = [name for name, (_, update) in found.items() if isnan(update.loss)]
            if unfit:
                raise Diverged(
                    f"a value in the update of {', '.join(unfit[:10])} exceeds the range of secure "
                    "aggregation",
                    SUM_RANGE_HINT,
                )
            return {name: each.numpy() for name, (each, _) in found.items() if each is not None}

        return self._sums.mean_update(members, self.quorum, size, collect)

    def evaluate(
        self,
        names: Sequence[str],
        kind: RowKind,
        model: Tensor,
        parameters: ParameterSource = "personal",
    ) -> Mapping[str, RowMetrics]:
        """Return the metrics of a model, ``[d]``, at each client of ``names`` that is connected.

        If too few clients would reply for the quorum, a lost client has time to reconnect.
        """
        self._admit()
        slots = {"model": model}
        body = encode(SentEvaluation(kind, parameters), vfl_pb2.EvaluateRows)
        bodies = dict.fromkeys(names, body)
        return dict(self._gather(bodies, slots, self._receive_metrics, self._spare(len(names))))

    def switch_branch(self, branch: str, parent: str | None) -> None:
        """Switch all clients to a branch, that is, to a named set of personal parameters.

        A lost client switches when it reconnects.
        """
        self._branch = branch
        if parent is not None:
            self._parents[branch] = parent
        order = vfl_pb2.SwitchBranch(branch=branch, parent=parent)
        for name in list(self._channels):
            self._request_done(name, order)

    def select_request(self, request: str) -> None:
        """Select the request to which the row kinds ``forgotten`` and ``retained`` refer.

        Raises:
            AbsentClientError: a client is not connected, but all clients must select the request.
        """
        self._request = request
        for name in self.clients:
            if not self._request_done_from_all(name, vfl_pb2.SelectRequest(request=request)):
                raise AbsentClientError(
                    f"{name} is not connected, but request {request!r} needs every client",
                    "start the client again",
                )

    def purge(self) -> dict[str, list[str]]:
        """Delete the forgotten rows at every client; return what each client deleted.

        Raises:
            AbsentClientError: a client is not connected, but all clients must delete their rows.
        """
        found = {}
        for name in self.clients:
            done = self._request_done_from_all(name, vfl_pb2.Purge())
            if done is None:
                raise AbsentClientError(
                    f"{name} is not connected, but every client must delete its forgotten rows",
                    "start the client again",
                )
            found[name] = list(done.purged)
            self._loaded[name] = {}
        return found

    def deliver(self, model: Tensor) -> None:
        """Send the run's final model, ``[d]``, to every client that is connected."""
        self._admit()
        for name in list(self._channels):
            self._try(name, lambda c: self._load(c, {DELIVERED: model}))

    def keep(self, model: Tensor, number: int, facts: VersionFacts) -> None:
        """Let every client keep a model, ``[d]``, as the version ``number``.

        Raises:
            AbsentClientError: a client is not connected, but all clients must keep the model.
        """
        body = vfl_pb2.KeepVersion(number=number, version=encode(facts, vfl_pb2.Version))

        def send(channel: Channel) -> vfl_pb2.Done:
            self._load(channel, {DELIVERED: model})
            channel.send(body)
            return channel.receive(self._reply_timeout).expect(vfl_pb2.Done)

        for name in self.clients:
            if not self._from_all(name, send):
                raise AbsentClientError(
                    f"{name} is not connected, but every client must keep the new model",
                    "start the client again",
                )

    def end_request(self) -> None:
        """Send clients that reconnect no order of the last request any more."""
        self._request = self._branch = None

    @property
    def hub(self) -> Hub:
        """The connected clients, as the hub of an exchange of journals."""
        self._admit()
        return Hub(self._channels)

    @property
    def lost(self) -> tuple[str, ...]:
        """Names of the clients that have lost their connection."""
        return tuple(name for name in self.clients if name not in self._channels)

    def goodbye(self) -> None:
        """Tell every client that the run has ended."""
        for name in list(self._channels):
            self._try(name, _sending(vfl_pb2.Goodbye()))

    def abort(self, code: str, reason: str) -> None:
        """Send the code and the reason of an error to every client that is connected."""
        for channel in self._channels.values():
            channel.abort(code, reason)

    def close(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            channel.close()

    def _admit(self) -> None:
        for name, channel in self._arrivals().items():
            self._channels[name], self._loaded[name] = channel, {}
            self._late.discard(name)
            channel.place = PLACE
            for order in self._missed_branches():
                self._request_done(name, order)
            if self._request is not None:
                self._request_done(name, vfl_pb2.SelectRequest(request=self._request))

    def _missed_branches(self) -> list[vfl_pb2.SwitchBranch]:
        """Orders that a client which reconnects needs: the branch and its ancestors, oldest first.

        A client that missed the start of an ancestor would start the branch without the personal
        parameters that it has.
        """
        orders, branch = list[vfl_pb2.SwitchBranch](), self._branch
        while branch is not None:
            parent = self._parents.get(branch)
            orders.append(vfl_pb2.SwitchBranch(branch=branch, parent=parent))
            branch = parent
        return orders[::-1]

    def _request_done(self, name: str, body: Body) -> vfl_pb2.Done | None:
        def ask(channel: Channel) -> vfl_pb2.Done:
            channel.send(body)
            return channel.receive(self._reply_timeout).expect(vfl_pb2.Done)

        return self._try(name, ask)

    def _request_done_from_all(self, name: str, body: Body) -> vfl_pb2.Done | None:
        """Send a request that no client may miss; a lost client has time to reconnect."""

        def ask(channel: Channel) -> vfl_pb2.Done:
            channel.send(body)
            return channel.receive(self._reply_timeout).expect(vfl_pb2.Done)

        return self._from_all(name, ask)

    def _from_all(self, name: str, ask: Callable[[Channel], vfl_pb2.Done]) -> vfl_pb2.Done | None:
        """Ask a client that must reply; a lost client has time to reconnect."""
        deadline = monotonic() + self._rejoin_timeout
        while True:
            self._admit()
            done = self._try(name, ask)
            if done is not None or monotonic() >= deadline:
                return done
            sleep(RECONNECT_PAUSE)

    def _load(self, channel: Channel, slots: Slots) -> bool:
        """Send the vectors that the client has not loaded yet.

        Raises:
            Diverged: a vector has an element that clients refuse.
        """
        held = self._loaded[channel.terms.peer]
        for slot, vector in slots.items():
            if held.get(slot) is not vector:
                self._check_bound(slot, vector, channel.terms.magnitude)
                for start, part in split_vector(vector):
                    channel.send(vfl_pb2.LoadVector(slot=slot, start=start, size=len(vector)), part)
                held[slot] = vector
        return True

    def _spare(self, asked: int) -> int:
        """How many of ``asked`` clients may be lost."""
        return asked - quorum_count(self.quorum, asked)

    def _gather(
        self,
        bodies: Mapping[str, Body],
        slots: Slots,
        receive: Callable[[Channel], T],
        spare: int,
    ) -> Iterator[tuple[str, T]]:
        """Send each client its message, and yield the replies in this order.

        The first ``spare`` lost clients are skipped; each further one has time to reconnect.
        """
        sent = {name: self._send(name, slots, body) for name, body in bodies.items()}
        for name, channel in sent.items():
            found = self._reply(name, channel, receive)
            if found is None and spare <= 0:
                found = self._ask_again(name, slots, bodies[name], receive)
            if found is None:
                spare -= 1
            else:
                yield name, found

    def _send(self, name: str, slots: Slots, body: Body) -> Channel | None:
        """Send vectors and a message; return the channel of the reply; None if the client is lost.

        ``slots`` are vectors by name, ``[d]`` each.
        """
        here = self._try(name, lambda c: self._load(c, slots)) and self._try(name, _sending(body))
        return self._channels[name] if here else None

    def _reply(
        self, name: str, channel: Channel | None, receive: Callable[[Channel], T]
    ) -> T | None:
        """Receive a reply from ``channel``; None if the client is lost, or connected anew."""
        if channel is None or self._channels.get(name) is not channel:
            return None
        return self._try(name, receive)

    def _ask_again(
        self, name: str, slots: Slots, body: Body, receive: Callable[[Channel], T]
    ) -> T | None:
        """Wait for a lost client to reconnect, and send it its message; None if it is late.

        A client that was late once is not waited for again until it reconnects.
        """
        deadline = monotonic() + self._rejoin_timeout
        while name not in self._late:
            self._admit()
            found = self._reply(name, self._send(name, slots, body), receive)
            if found is not None:
                return found
            if monotonic() >= deadline:
                self._late.add(name)
            sleep(RECONNECT_PAUSE)
        return None

    def _check_bound(self, slot: str, vector: Tensor, magnitude: float) -> None:
        """Check a vector's elements once, not once per client."""
        if self._bounded.get(slot) is vector:
            return
        if not bool((vector.abs() <= magnitude).all()):
            raise Diverged(
                f"an element of the vector {slot!r} exceeds limits.magnitude = {magnitude:g}",
                DIVERGED_HINT,
            )
        self._bounded[slot] = vector

    def _receive_update(self, channel: Channel, aim: Aim, slots: Slots) -> LocalUpdate:
        delta, update = self._receive_vector(channel, np.dtype(np.float32))
        size = len(slots["model"])
        if delta is None:
            delta = slots["model"].new_zeros(size)
        if len(delta) != size and aim not in REPORT_AIMS:
            raise RemoteProtocolError(
                f"the client sent an update of {len(delta)} elements; expected {size}"
            )
        return decode(update, LocalUpdate, delta=delta)

    def _receive_vector(
        self, channel: Channel, dtype: np.dtype[Any]
    ) -> tuple[Tensor | None, vfl_pb2.LocalUpdate]:
        assembler, vector = VectorAssembler(2**31, dtype), None
        while True:
            message = channel.receive(self._reply_timeout)
            if isinstance(message.body, vfl_pb2.LocalUpdate):
                return vector, message.body
            vector = assembler.add(message.expect(vfl_pb2.Update), message)

    def _secure_sums(self, settings: CohortSettings) -> "MaskedSumHub | EncryptedSumHub | None":
        if settings.min_contributors is None:
            return None
        if settings.key_holders is None:
            return MaskedSumHub(
                self._exchange, self._send_to_each, settings.min_contributors, settings.entropy
            )
        from parties.horizontal.secure.encrypted_hub import (
            EncryptedSumHub,  # TenSEAL is loaded here
        )

        return EncryptedSumHub(
            self._try,
            settings.min_contributors,
            settings.key_holders,
            settings.reply_timeout,
            settings.entropy,
        )

    def _exchange(self, bodies: Mapping[str, Body]) -> dict[str, Body]:
        """Send each client its message and return the replies."""
        here = [name for name, body in bodies.items() if self._try(name, _sending(body))]
        replies = {
            name: self._try(name, lambda c: c.receive(self._reply_timeout).body) for name in here
        }
        return {name: each for name, each in replies.items() if each is not None}

    def _receive_metrics(self, channel: Channel) -> RowMetrics:
        """Receive a client's metrics and check that they are consistent."""
        message = channel.receive(self._reply_timeout).expect(vfl_pb2.Metrics)
        found = decode(message, RowMetrics)
        counts = found.histogram
        whole = len(counts) == BINS and sum(counts) == found.rows if found.rows else not counts
        if not whole or found.correct > found.rows:
            raise RemoteProtocolError(
                f"the client sent contradictory or incomplete metrics: {found.rows} rows, "
                f"{sum(counts)} scores and {found.correct} correct rows; expected one score for "
                "each row, and no more correct rows than rows"
            )
        # Outputs that are not finite have no probability.
        probability = found.probability if isfinite(found.loss) else nan
        if not (isnan(probability) or 0 <= probability <= found.rows):
            raise RemoteProtocolError(
                f"the client sent {probability} as the sum of {found.rows} probabilities; expected "
                f"a number from 0 to {found.rows}"
            )
        return replace(found, probability=probability)

    def _send_to_each(self, bodies: Mapping[str, Body]) -> dict[str, Body]:
        """Send each client its message; no reply follows."""
        for name, body in bodies.items():
            self._try(name, _sending(body))
        return {}

    def _try(self, name: str, work: Callable[[Channel], T]) -> T | None:
        """Return the result of ``work`` with a client's channel; None if the client is lost."""
        channel = self._channels.get(name)
        if channel is None:
            return None
        try:
            return work(channel)
        except ProtocolError as error:
            self._warn(f"{name} is left out until it reconnects: {error}")
            channel.close()
            del self._channels[name]
            return None


def _task_messages(
    kinds: Iterable[TrainingKind], slots: tuple[str, ...], task: LocalTask
) -> dict[TrainingKind, vfl_pb2.RunTask]:
    """Return the message for each kind of rows; the members of one kind receive equal messages."""
    return {kind: encode(SentTask(kind, slots, task), vfl_pb2.RunTask) for kind in kinds}


def _waves(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Yield groups of members in which each client occurs at most once."""
    left = list(members)
    while left:
        wave = {member.client: member for member in reversed(left)}
        yield [member for member in left if wave[member.client] is member]
        left = [member for member in left if wave[member.client] is not member]


def _sending(body: Body) -> Callable[[Channel], bool]:
    def send(channel: Channel) -> bool:
        channel.send(body)
        return True

    return send
