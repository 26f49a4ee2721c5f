"""The server in encrypted sums: the server adds ciphertexts; two key holders decrypt the sum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import AbsentClientError
from parties.horizontal.engine.wire import VectorAssembler, split_vector
from parties.horizontal.secure.encrypted_client import ENCRYPTED_FRACTION_BITS, select_key_holders
from parties.horizontal.secure.encryption.ckks import MAX_CONTEXT_BYTES, CkksError, Numbers
from parties.horizontal.secure.encryption.client import ciphertext_count
from parties.horizontal.secure.encryption.server import CkksServer
from parties.horizontal.secure.masking.fixed_point import Floats, decode_fixed_point
from parties.horizontal.secure.masking.pair_keys import Entropy
from parties.horizontal.secure.sum_hub import CollectVectors, SumHub
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.message import Body, Message
from protocol.tensors import Tensor

T = TypeVar("T")
DECRYPTING_HOLDERS = 2  # key holders that must decrypt to the same numbers


class ClientCall(Protocol):
    """Calls a function with the channel of one client, and returns the function's result."""

    def __call__(self, name: str, work: Callable[[Channel], T]) -> T | None:
        """Return the result of ``work``; None if the client is lost."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum whose members are connected, and its server."""

    names: list[str]
    threshold: int
    server: CkksServer


class EncryptedSumHub(SumHub):
    """Computes mean updates from sums of ciphertexts.

    Args:
        call: function that calls another function with the channel of one client, and returns the
            result of the other function.
        min_contributors: smallest number of members of a sum.
        key_holders: clients that may hold the key; empty: all members.
        reply_timeout: seconds that a client may take for a reply.
        entropy: source of random bytes.
    """

    dtype = np.dtype(np.uint8)
    repeated = "the members of an encrypted sum include one client twice"

    def __init__(
        self,
        call: ClientCall,
        min_contributors: int,
        key_holders: Sequence[str],
        reply_timeout: float,
        entropy: Entropy,
    ) -> None:
        super().__init__(min_contributors, entropy)
        self._call, self._key_holders, self._reply_timeout = call, key_holders, reply_timeout

    def _total(
        self, names: list[str], floor: int, count: int, collect: CollectVectors
    ) -> tuple[Floats, Sequence[str]]:
        sum_ = self._start(names, floor, ciphertext_count(count))
        for name, vector in collect(sum_.names).items():
            self._call(name, _adding(sum_.server, name, vector.tobytes()))
        words = self._decrypt(sum_, count).view(np.uint64)
        return decode_fixed_point(words, ENCRYPTED_FRACTION_BITS), sum_.server.present

    def _start(self, names: list[str], floor: int, count: int) -> _Sum:
        """Let a key holder make the key of a sum.

        If members are lost meanwhile, the sum starts again without them.

        Raises:
            AbsentClientError: fewer members are connected than a sum needs.
            PolicyError: the sum has fewer members, or fewer key holders, than it needs.
        """
        members = names
        while True:
            threshold = self._threshold(names, floor)
            holders = select_key_holders(self._key_holders, names)
            if threshold > len(names):
                raise self._too_few(members, names, threshold)
            if len(holders) < DECRYPTING_HOLDERS:
                problem = (
                    f"{len(holders)} clients of an encrypted sum are key holders; expected at "
                    f"least {DECRYPTING_HOLDERS}"
                )
                wanted = select_key_holders(self._key_holders, members)
                if len(wanted) >= DECRYPTING_HOLDERS:
                    raise AbsentClientError.of(problem, wanted, names)
                raise PolicyError(problem, "name more clients in aggregation.key_holders")
            start = self._new_sum(names, threshold)
            keys = self._ask(names, start, vfl_pb2.SealingKey)
            if len(keys) == len(names):
                request = vfl_pb2.ShareKey(keys=keys)
                request_key = partial(self._request_key, request=request, names=names, count=count)
                server = self._call(holders[0], request_key)
                if server is not None:
                    return _Sum(names, threshold, server)
                del keys[holders[0]]
            names = [name for name in names if name in keys]

    def _request_key(
        self, channel: Channel, request: vfl_pb2.ShareKey, names: Sequence[str], count: int
    ) -> CkksServer:
        """Request the key from its maker and send it to the other members."""
        channel.send(request)
        message = channel.receive(self._reply_timeout)
        key, whole = message.expect(vfl_pb2.SumKey), message.tensor(np.uint8, None)
        try:
            server = CkksServer(whole[: key.size].tobytes(), count)
        except CkksError as error:
            raise RemoteProtocolError(
                f"the key holder sent an invalid public key: {error}"
            ) from error
        if len(whole) - key.size > MAX_CONTEXT_BYTES:
            raise RemoteProtocolError(
                f"the key holder sent a secret key of {len(whole) - key.size} bytes, expected at "
                f"most {MAX_CONTEXT_BYTES}"
            )
        for name in names:
            if name != channel.terms.peer:
                self._call(name, _sending(_key_for(key, name), whole))
        return server

    def _decrypt(self, sum_: _Sum, size: int) -> Numbers:
        """The sum as two key holders decrypt it.

        Raises:
            PolicyError: too few members are connected or approve, or the key holders disagree.
        """
        present = sum_.server.present
        if len(present) < sum_.threshold:
            problem = f"only {len(present)} of {len(sum_.names)} clients of the sum replied"
            raise AbsentClientError.of(
                f"{problem}, expected at least {sum_.threshold}", sum_.names, present
            )
        whole, digest = sum_.server.total()
        question = vfl_pb2.Present(members=present, digest=digest)
        approved = self._ask(present, question, vfl_pb2.Approve)
        if len(approved) < sum_.threshold:
            problem = f"{len(approved)} clients approved the sum, expected at least"
            raise AbsentClientError.of(f"{problem} {sum_.threshold}", present, approved)
        approvals, found = vfl_pb2.Approvals(approvals=approved), dict[str, Numbers]()
        for name in select_key_holders(self._key_holders, list(approved)):
            numbers = self._call(
                name, lambda channel: self._decrypt_at(channel, whole, approvals, size)
            )
            if numbers is not None:
                found[name] = numbers
            if len(found) == DECRYPTING_HOLDERS:
                break
        return _require_equal(found)

    def _decrypt_at(
        self, channel: Channel, whole: bytes, approvals: vfl_pb2.Approvals, size: int
    ) -> Numbers:
        for start, part in split_vector(np.frombuffer(whole, np.uint8)):
            channel.send(vfl_pb2.CiphertextSum(start=start, size=len(whole)), part)
        channel.send(approvals)
        assembler, found = VectorAssembler(size, np.dtype(np.int64)), None
        while not isinstance((message := channel.receive(self._reply_timeout)).body, vfl_pb2.Done):
            found = assembler.add(message.expect(vfl_pb2.DecryptedSum), message)
        if found is None or len(found) != size:
            raise RemoteProtocolError(
                f"the key holder sent a decrypted sum with fewer than the expected {size} numbers"
            )
        return found.numpy()

    def _ask(self, names: Sequence[str], body: Body, kind: type[T]) -> dict[str, T]:
        """Send all clients the same message and return the replies of one kind."""
        here = [name for name in names if self._call(name, _sending(body))]
        found = {name: self._call(name, lambda c: c.receive(self._reply_timeout)) for name in here}
        replies = {name: each.body for name, each in found.items() if isinstance(each, Message)}
        return {name: each for name, each in replies.items() if isinstance(each, kind)}


def _require_equal(found: Mapping[str, Numbers]) -> Numbers:
    if len(found) < DECRYPTING_HOLDERS:
        raise PolicyError(
            f"{len(found)} key holders decrypted the sum, expected {DECRYPTING_HOLDERS}",
            "start the lost clients again; the logs of clients that refused show the reason",
        )
    (first, one), (second, other) = found.items()
    if not np.array_equal(one, other):
        raise PolicyError(f"{first} and {second} decrypted the same sum to different numbers")
    return one


def _key_for(key: vfl_pb2.SumKey, name: str) -> vfl_pb2.SumKey:
    """The key with the sealed part of one member only."""
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
            raise RemoteProtocolError(f"the client sent invalid ciphertexts: {error}") from error
        return True

    return add


def _sending(body: Body, *tensors: Tensor) -> Callable[[Channel], bool]:
    def send(channel: Channel) -> bool:
        channel.send(body, *tensors)
        return True

    return send
