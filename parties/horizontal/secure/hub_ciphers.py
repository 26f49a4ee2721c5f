"""The server in sums of ciphertexts: who gathers, who makes the key, and what two keepers open."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
import torch

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Mean, Member, needed
from parties.horizontal.engine.wire import Gathering, parts
from parties.horizontal.secure.client_ciphers import BITS, keepers
from parties.horizontal.secure.encryption.ckks import LARGEST_KEY, CkksError, Numbers
from parties.horizontal.secure.encryption.client import blocks
from parties.horizontal.secure.encryption.server import CkksServer
from parties.horizontal.secure.hub_sums import Taught
from parties.horizontal.secure.masking.fixed_point import decoded
from parties.horizontal.secure.masking.pair_keys import Entropy
from parties.horizontal.secure.sums import CONTEXT
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.message import Body, Message
from protocol.tensors import Tensor

T = TypeVar("T")
OPENERS = 2  # keepers whose answers must be the same


class Trying(Protocol):
    """What a client answers; None where it is lost, which ends its line."""

    def __call__(self, name: str, work: Callable[[Channel], T]) -> T | None:
        """Do some work on its line."""


@dataclass(frozen=True, slots=True)
class _Round:
    """A sum whose members are there, and its server."""

    names: list[str]
    threshold: int
    server: CkksServer


class HubCiphers:
    """Makes sums.

    Args:
        trying: reaches one client.
        least: how many must be there at the end.
        named: who may hold the key; nobody: all members.
        patience: seconds that a client may take.
    """

    dtype = np.dtype(np.uint8)  # of what members say

    def __init__(
        self, trying: Trying, least: int, named: Sequence[str], patience: float, entropy: Entropy
    ) -> None:
        self._try, self._least, self._named = trying, least, named
        self._patience, self._entropy = patience, entropy

    def mean(self, members: Sequence[Member], quorum: float, size: int, taught: Taught) -> Mean:
        """The mean by rows of what the members learned; ``taught`` has those teach who gathered.

        Raises:
            PolicyError: too few are there, or the keepers do not open one and the same sum.
        """
        names = [each.client for each in members]
        if len(set(names)) != len(names):
            raise PolicyError("in a sum of ciphertexts a client stands once")
        round_ = self._gathered(names, needed(quorum, len(names)), blocks(size + 2))
        for name, vector in taught(round_.names).items():
            self._try(name, _adding(round_.server, name, vector.tobytes()))
        total = decoded(self._opened(round_, size + 2).view(np.uint64), BITS)
        rows, loss = total[-2], total[-1]
        absent = tuple(each for each in members if each.client not in round_.server.there)
        return Mean(torch.from_numpy(total[:-2] / rows), round(rows), loss / rows, absent)

    def _gathered(self, names: list[str], floor: int, count: int) -> _Round:
        """Have a keeper make the key; whoever is lost is left out of a new beginning.

        Raises:
            PolicyError: fewer are there than a sum needs.
        """
        while True:
            threshold = max(self._least, floor, len(names) // 2 + 1)
            holders = keepers(self._named, names)
            if threshold > len(names) or len(holders) < OPENERS:
                raise PolicyError(
                    f"{len(names)} clients are there, {len(holders)} of them keepers of the key, "
                    f"and a sum needs {threshold} with {OPENERS} keepers",
                    "aggregation and training.quorum say how many; wait for more clients",
                )
            context = self._entropy(CONTEXT)
            gather = vfl_pb2.Gather(members=names, threshold=threshold, context=context)
            keys = self._asked(names, gather, vfl_pb2.SealKey)
            if len(keys) == len(names):
                entrust = vfl_pb2.Entrust(keys=keys)
                hand_on = partial(self._entrusted, entrust=entrust, names=names, count=count)
                server = self._try(holders[0], hand_on)
                if server is not None:
                    return _Round(names, threshold, server)
                del keys[holders[0]]
            names = [name for name in names if name in keys]

    def _entrusted(
        self, channel: Channel, entrust: vfl_pb2.Entrust, names: Sequence[str], count: int
    ) -> CkksServer:
        """Get the key from who makes it, and hand it on."""
        channel.send(entrust)
        message = channel.receive(self._patience)
        key, whole = message.expect(vfl_pb2.SumKey), message.tensor(np.uint8, None)
        try:
            server = CkksServer(whole[: key.size].tobytes(), count)
        except CkksError as error:
            raise RemoteProtocolError(f"made a key that is none: {error}") from error
        if len(whole) - key.size > LARGEST_KEY:
            raise RemoteProtocolError("made a key that is too long")
        for name in names:
            if name != channel.terms.peer:
                self._try(name, _saying(_own(key, name), whole))
        return server

    def _opened(self, round_: _Round, size: int) -> Numbers:
        """What two keepers open the sum to.

        Raises:
            PolicyError: too few are there or assent, or the keepers do not agree.
        """
        there = round_.server.there
        if len(there) < round_.threshold:
            raise PolicyError(
                f"no sum: {len(there)} said what they learned, {round_.threshold} are needed",
                "are the clients still there?",
            )
        whole, digest = round_.server.total()
        question = vfl_pb2.There(members=there, digest=digest)
        assents = self._asked(there, question, vfl_pb2.Assent)
        if len(assents) < round_.threshold:
            raise PolicyError(f"no sum: {len(assents)} assent, {round_.threshold} are needed")
        said, found = vfl_pb2.Assents(assents=assents), dict[str, Numbers]()
        for name in keepers(self._named, list(assents)):
            numbers = self._try(name, lambda channel: self._unsealed(channel, whole, said, size))
            if numbers is not None:
                found[name] = numbers
            if len(found) == OPENERS:
                break
        return _agreed(found)

    def _unsealed(
        self, channel: Channel, whole: bytes, said: vfl_pb2.Assents, size: int
    ) -> Numbers:
        for start, part in parts(np.frombuffer(whole, np.uint8)):
            channel.send(vfl_pb2.Total(start=start, size=len(whole)), part)
        channel.send(said)
        gathering, found = Gathering(size, np.dtype(np.int64)), None
        while not isinstance((message := channel.receive(self._patience)).body, vfl_pb2.Done):
            found = gathering.add(message.expect(vfl_pb2.Unsealed), message)
        if found is None or len(found) != size:
            raise RemoteProtocolError("opened a sum to fewer numbers than it has")
        return found.numpy()

    def _asked(self, names: Sequence[str], body: Body, kind: type[T]) -> dict[str, T]:
        """Say all the same, and take the answers of a kind."""
        here = [name for name in names if self._try(name, _saying(body))]
        found = {name: self._try(name, lambda c: c.receive(self._patience)) for name in here}
        heard = {name: each.body for name, each in found.items() if isinstance(each, Message)}
        return {name: each for name, each in heard.items() if isinstance(each, kind)}


def _agreed(found: Mapping[str, Numbers]) -> Numbers:
    if len(found) < OPENERS:
        raise PolicyError(
            f"no sum: {len(found)} keepers of its key opened it, {OPENERS} are needed",
            "are the clients still there? their own logs say what they refused",
        )
    (first, one), (second, other) = found.items()
    if not np.array_equal(one, other):
        raise PolicyError(f"{first} and {second} open one sum to different numbers")
    return one


def _own(key: vfl_pb2.SumKey, name: str) -> vfl_pb2.SumKey:
    """The key with nothing sealed but what is this member's."""
    return vfl_pb2.SumKey(
        size=key.size,
        sealed={name: key.sealed[name]} if name in key.sealed else {},
        sealing=key.sealing,
        certificate=key.certificate,
        signature=key.signature,
    )


def _adding(server: CkksServer, name: str, data: bytes) -> Callable[[Channel], bool]:
    def add(_channel: Channel) -> bool:
        try:
            server.add(name, data)
        except CkksError as error:
            raise RemoteProtocolError(f"said no ciphertexts of this sum: {error}") from error
        return True

    return add


def _saying(body: Body, *tensors: Tensor) -> Callable[[Channel], bool]:
    def say(channel: Channel) -> bool:
        channel.send(body, *tensors)
        return True

    return say
