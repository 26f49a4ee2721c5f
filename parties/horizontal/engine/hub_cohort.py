"""Clients at the other ends of lines: whoever is lost is left out, and may come back."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from parties.common.errors import Diverged, PolicyError
from parties.horizontal.engine.cohort import SMALLER, Kind, Mean, Member, Score, Summing, Whose
from parties.horizontal.engine.wire import DELIVERED, ROWS, Gathering, parts, said
from parties.horizontal.local.local_task import Aim, Learned, Lesson, Slots
from parties.horizontal.local.score_histogram import BINS
from parties.horizontal.secure.hub_sums import HubSums
from parties.horizontal.secure.masking.pair_keys import Entropy
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import ProtocolError, RemoteProtocolError
from protocol.message import Body

if TYPE_CHECKING:
    from parties.horizontal.secure.hub_ciphers import HubCiphers

T = TypeVar("T")
PLACE = vfl_pb2.Place(task=vfl_pb2.ROUND, epoch=0, step=0, microbatch=0)
OTHERWISE: tuple[Aim, ...] = ("inputs", "classes")  # their answers are no vectors of the model
FITS = f"{SMALLER}; where only rows times loss are too many, as the client says, smaller shares"
PAUSE = 0.1  # seconds between two looks for a client that is gone
Arrivals = Callable[[], Mapping[str, Channel]]
Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Manner:
    """How clients are asked.

    Attributes:
        quorum: part of those asked that must answer.
        patience: seconds that a client may take for a lesson.
        rejoin: seconds that a lost client is given to come back, where nobody may be passed over.
        least: contributors of a sum; None: updates are said one by one.
        entropy: for what is new in every sum.
        keepers: who may hold the keys of sums of ciphertexts, () all; None: sums are masked.
    """

    quorum: float
    patience: float
    least: int | None = None
    entropy: Entropy = os.urandom
    keepers: tuple[str, ...] | None = None
    rejoin: float = 0.0


class HubCohort:
    """See ``Cohort``.

    Args:
        channels: of the clients that are here.
        arrivals: whoever came since it was asked last, greeted already.
        manner: how clients are asked.
        warn: is told of who is lost.
    """

    def __init__(
        self,
        names: Sequence[str],
        channels: Mapping[str, Channel],
        arrivals: Arrivals,
        manner: Manner,
        warn: Warn,
    ) -> None:
        self._names, self._channels, self._arrivals = tuple(names), dict(channels), arrivals
        self.quorum, self._patience, self._warn = manner.quorum, manner.patience, warn
        self._rejoin = manner.rejoin
        self._held: dict[str, dict[str, Tensor]] = {name: {} for name in channels}
        self._bounded: dict[str, Tensor] = {}  # what was found to be no larger than agreed
        self._sums = self._secure(manner)
        self._request: str | None = None
        self._line: vfl_pb2.Follow | None = None
        for channel in channels.values():
            channel.place = PLACE

    @property
    def clients(self) -> Sequence[str]:
        """All of the agreement, by name, whether they are here or not."""
        return self._names

    def each(
        self, members: Iterable[Member], lesson: Lesson, slots: Slots
    ) -> Iterator[tuple[Member, Learned]]:
        """See ``Cohort``; a client that is two members is asked twice, one after the other."""
        if self._sums is not None:
            raise PolicyError(
                "nobody sees a single update: the agreement has secure aggregation",
                "choose a way to forget that needs sums only",
            )
        self._admit()
        others = tuple(name for name in slots if name != "model")
        for wave in _waves(members):
            here = [
                member
                for member in wave
                if self._try(member.client, lambda c: self._load(c, slots))
                and self._try(member.client, _saying(said(lesson, member.kind, others)))
            ]
            for member in here:
                found = self._try(member.client, lambda c: self._heard(c, lesson.aim, slots))
                if found is not None:
                    yield member, found

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Slots) -> Mean:
        """See ``Cohort``.

        Raises:
            Diverged: under sums somebody's update is not finite, or too large for one.
        """
        if self._sums is None:
            total = Summing()
            for member, learned in self.each(members, lesson, slots):
                total.add(member, learned)
            return total.mean(members, self.quorum)
        self._admit()
        kinds = {member.client: member.kind for member in members}
        others = tuple(name for name in slots if name != "model")

        dtype, size = self._sums.dtype, len(slots["model"])

        def taught(names: Sequence[str]) -> dict[str, NDArray[Any]]:
            teach = {name: said(lesson, kinds[name], others) for name in names}
            here = [n for n in names if self._try(n, lambda c: self._load(c, slots))]
            here = [n for n in here if self._try(n, _saying(teach[n]))]
            heard = {n: self._try(n, lambda c: self._vector(c, dtype)) for n in here}
            found = {name: each for name, each in heard.items() if each is not None}
            wild = [name for name, (_, learned) in found.items() if isnan(learned.loss)]
            if wild:
                raise Diverged(f"the update of {', '.join(wild[:10])} fits into no sum", FITS)
            return {name: each.numpy() for name, (each, _) in found.items() if each is not None}

        return self._sums.mean(members, self.quorum, size, taught)

    def read(
        self, names: Sequence[str], kind: Kind, model: Tensor, whose: Whose = "own"
    ) -> Mapping[str, Score]:
        """See ``Cohort``."""
        self._admit()
        slots = {"model": model}
        read = vfl_pb2.Read(rows=ROWS[kind], sent=whose == "sent")
        here = [
            name
            for name in names
            if self._try(name, lambda c: self._load(c, slots)) and self._try(name, _saying(read))
        ]
        found = {name: self._try(name, self._score) for name in here}
        return {name: each for name, each in found.items() if each is not None}

    def follow(self, line: str, parent: str | None) -> None:
        """See ``Cohort``; who is not here follows once it comes back."""
        self._line = vfl_pb2.Follow(line=line, parent=parent)
        for name in list(self._channels):
            self._order(name, self._line)

    def attend(self, request: str) -> None:
        """Tell all clients which request FORGOTTEN means.

        Raises:
            PolicyError: one of them is not here: nobody may be passed over.
        """
        self._request = request
        for name in self._names:
            if not self._insist(name, vfl_pb2.Attend(request=request)):
                raise PolicyError(f"{name} is not here, and request {request!r} concerns all")

    def purge(self) -> dict[str, list[str]]:
        """Have every client forget the rows of the request."""
        found = {}
        for name in self._names:
            done = self._insist(name, vfl_pb2.Purge())
            if done is None:
                raise PolicyError(f"{name} is not here, and every client must purge")
            found[name] = list(done.purged)
            self._held[name] = {}
        return found

    def deliver(self, model: Tensor) -> None:
        """Give every client that is here the model that the run ends with, ``[d]``."""
        self._admit()
        for name in list(self._channels):
            self._try(name, lambda c: self._load(c, {DELIVERED: model}))

    def goodbye(self) -> None:
        """End all conversations."""
        for name in list(self._channels):
            self._try(name, _saying(vfl_pb2.Goodbye()))

    def abort(self, code: str, reason: str) -> None:
        """Tell every client that can still hear that it is over, and why."""
        for channel in self._channels.values():
            channel.abort(code, reason)

    def close(self) -> None:
        """Close every line."""
        for channel in self._channels.values():
            channel.close()

    def _admit(self) -> None:
        for name, channel in self._arrivals().items():
            self._channels[name], self._held[name] = channel, {}
            channel.place = PLACE
            if self._line is not None:
                self._order(name, self._line)
            if self._request is not None:
                self._order(name, vfl_pb2.Attend(request=self._request))

    def _order(self, name: str, body: Body) -> vfl_pb2.Done | None:
        def ask(channel: Channel) -> vfl_pb2.Done:
            channel.send(body)
            return channel.receive(self._patience).expect(vfl_pb2.Done)

        return self._try(name, ask)

    def _insist(self, name: str, body: Body) -> vfl_pb2.Done | None:
        """Order it of one who may not be passed over: it is given time to come back."""
        deadline = monotonic() + self._rejoin
        while True:
            self._admit()
            done = self._order(name, body)
            if done is not None or monotonic() >= deadline:
                return done
            sleep(PAUSE)

    def _load(self, channel: Channel, slots: Slots) -> bool:
        """Send the vectors that the client does not hold already.

        Raises:
            Diverged: one that clients would refuse, and end.
        """
        held = self._held[channel.terms.peer]
        for slot, vector in slots.items():
            if held.get(slot) is not vector:
                self._bound(slot, vector, channel.terms.magnitude)
                for start, part in parts(vector):
                    channel.send(vfl_pb2.Load(slot=slot, start=start, size=len(vector)), part)
                held[slot] = vector
        return True

    def _bound(self, slot: str, vector: Tensor, magnitude: float) -> None:
        """Look at it once, and not for every client."""
        if self._bounded.get(slot) is vector:
            return
        if not bool((vector.abs() <= magnitude).all()):
            raise Diverged(f"a number of the {slot} is beyond limits.magnitude", SMALLER)
        self._bounded[slot] = vector

    def _heard(self, channel: Channel, aim: Aim, slots: Slots) -> Learned:
        change, learned = self._vector(channel, np.dtype(np.float32))
        size = len(slots["model"])
        if change is None:
            change = slots["model"].new_zeros(size)
        if len(change) != size and aim not in OTHERWISE:
            raise RemoteProtocolError(f"said {len(change)} numbers of a model of {size}")
        return Learned(change, learned.rows, learned.loss, learned.steps, tokens=learned.tokens)

    def _vector(
        self, channel: Channel, dtype: np.dtype[Any]
    ) -> tuple[Tensor | None, vfl_pb2.Learned]:
        gathering, vector = Gathering(2**31, dtype), None
        while True:
            message = channel.receive(self._patience)
            if isinstance(message.body, vfl_pb2.Learned):
                return vector, message.body
            vector = gathering.add(message.expect(vfl_pb2.Change), message)

    def _secure(self, manner: Manner) -> "HubSums | HubCiphers | None":
        if manner.least is None:
            return None
        if manner.keepers is None:
            return HubSums(self._exchange, self._tell, manner.least, manner.entropy)
        from parties.horizontal.secure.hub_ciphers import HubCiphers  # TenSEAL is loaded here

        return HubCiphers(self._try, manner.least, manner.keepers, manner.patience, manner.entropy)

    def _exchange(self, bodies: Mapping[str, Body]) -> dict[str, Body]:
        """Say each client its own, and take the answers."""
        here = [name for name, body in bodies.items() if self._try(name, _saying(body))]
        heard = {name: self._try(name, lambda c: c.receive(self._patience).body) for name in here}
        return {name: each for name, each in heard.items() if each is not None}

    def _score(self, channel: Channel) -> Score:
        """What a client measured; its counts are of its rows."""
        found = channel.receive(self._patience).expect(vfl_pb2.Measured)
        odds = tuple(found.odds)
        whole = len(odds) == BINS and sum(odds) == found.rows if found.rows else not odds
        if not whole or found.right > found.rows:
            raise RemoteProtocolError(f"measured {sum(odds)} odds of {found.rows} rows")
        chance = found.chance if isfinite(found.loss) else nan  # of outputs that are not finite
        if not (isnan(chance) or 0 <= chance <= found.rows):
            raise RemoteProtocolError(f"measured chances of {chance} of {found.rows} rows")
        return Score(found.rows, found.right, found.loss, odds, chance)

    def _tell(self, bodies: Mapping[str, Body]) -> dict[str, Body]:
        """Say each client its own; no answer follows."""
        for name, body in bodies.items():
            self._try(name, _saying(body))
        return {}

    def _try(self, name: str, work: Callable[[Channel], T]) -> T | None:
        """What a client answers; None where it is lost, which ends its line."""
        channel = self._channels.get(name)
        if channel is None:
            return None
        try:
            return work(channel)
        except ProtocolError as error:
            self._warn(f"{name} is left out until it comes back: {error}")
            channel.close()
            del self._channels[name]
            return None


def _waves(members: Iterable[Member]) -> Iterator[list[Member]]:
    """Members so that each client is asked once in a wave; one that is two members comes again."""
    left = list(members)
    while left:
        wave = {member.client: member for member in reversed(left)}
        yield [member for member in left if wave[member.client] is member]
        left = [member for member in left if wave[member.client] is not member]


def _saying(body: Body) -> Callable[[Channel], bool]:
    def say(channel: Channel) -> bool:
        channel.send(body)
        return True

    return say
