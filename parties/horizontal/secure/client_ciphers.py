"""A client in sums of ciphertexts: its side of the conversation around ``encryption.client``."""

from collections.abc import Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.horizontal.engine.wire import Gathering, parts
from parties.horizontal.local.local_task import Learned
from parties.horizontal.party import FederatedParty
from parties.horizontal.secure.encryption.ckks import MOST, CkksError, longest
from parties.horizontal.secure.encryption.client import CkksClient, SumKey, Terms, blocks
from parties.horizontal.secure.sums import Outgrown, admitted, refuse_alone, weighed
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import verify
from protocol.errors import IdentityError, RemoteProtocolError
from protocol.message import Message

BITS = 16  # behind the point
PURPOSE, KEY, ASSENT = "sealing key of a sum", "key of a sum", "sum to open"


def keepers(named: Sequence[str], members: Sequence[str]) -> tuple[str, ...]:
    """Those of the members who hold the key of their sum: who is ``named``, or else all."""
    return tuple(each for each in members if not named or each in named)


def listed(names: Sequence[str]) -> bytes:
    """Names as one text, for signatures."""
    return "\n".join(names).encode()


class ClientCiphers:
    """The sum that is under way, if one is; nothing is said without encryption."""

    def __init__(self, party: FederatedParty, channel: Channel) -> None:
        self._party, self._channel = party, channel
        self._sum: CkksClient | None = None
        self._terms: Terms | None = None
        self._there: vfl_pb2.There | None = None
        self._total: Gathering | None = None
        self._whole = b""
        self._known = set[bytes]()

    def answer(self, message: Message) -> None:
        """One message of a sum.

        Raises:
            PolicyError: it would show more than a sum, or what came is no key or sum.
        """
        try:
            match message.body:
                case vfl_pb2.Gather() as gather:
                    self._gather(gather)
                case vfl_pb2.Entrust() as entrust:
                    self._make(entrust)
                case vfl_pb2.SumKey() as key:
                    self._take(key, message)
                case vfl_pb2.There() as there:
                    self._assent(there)
                case vfl_pb2.Total() as total:
                    self._gather_total(total, message)
                case vfl_pb2.Assents() as assents:
                    self._open(assents)
                case _:
                    raise RemoteProtocolError(f"said {message.kind} to a client")
        except CkksError as error:
            raise PolicyError(f"no sum at {self._party.name}: {error}") from error

    def covered(self, found: Learned) -> "tuple[NDArray[np.uint8], vfl_pb2.Learned]":
        """What is said of a lesson: ciphertexts; nothing where it does not fit into the sum.

        Raises:
            PolicyError: it would be said outside a sum.
        """
        if self._sum is None or self._terms is None:
            raise refuse_alone("ckks")
        try:
            numbers = weighed(found, BITS, len(self._terms.members), MOST).view(np.int64)
        except Outgrown as error:
            self._party.watch.warn(str(error))
            told = vfl_pb2.Learned(rows=0, loss=nan, steps=found.steps)
            return np.empty(0, np.uint8), told
        try:
            said = self._sum.encrypted(numbers)
        except CkksError as error:
            raise refuse_alone("ckks") from error
        self._total = Gathering(longest(blocks(len(numbers))), np.dtype(np.uint8))
        steps = vfl_pb2.Learned(rows=0, loss=0.0, steps=found.steps)
        return np.frombuffer(said, np.uint8), steps

    def _gather(self, gather: vfl_pb2.Gather) -> None:
        party = self._party
        members = admitted(party.agreement, gather, self._known)
        holders = keepers(party.agreement.aggregation.keepers, members)
        self._terms = Terms(members, holders, gather.threshold, gather.context)
        self._sum = CkksClient(party.name, self._terms, party.entropy)
        self._there, self._total, self._whole = None, None, b""
        sealing = self._sum.sealing
        certificate, signature = self._signed(PURPOSE, gather.context, sealing)
        self._channel.send(
            vfl_pb2.SealKey(sealing=sealing, certificate=certificate, signature=signature)
        )

    def _make(self, entrust: vfl_pb2.Entrust) -> None:
        made, terms = self._under_way()
        others = {}
        for name, each in entrust.keys.items():
            self._signed_by(name, each, PURPOSE, terms.context, each.sealing)
            others[name] = each.sealing
        key = made.make(others)
        bound = (terms.context, listed(terms.members), key.sealing, key.public, key.secret)
        certificate, signature = self._signed(KEY, *bound)
        said = vfl_pb2.SumKey(
            size=len(key.public),
            sealed=key.sealed,
            sealing=key.sealing,
            certificate=certificate,
            signature=signature,
        )
        self._channel.send(said, np.frombuffer(key.public + key.secret, np.uint8))

    def _take(self, said: vfl_pb2.SumKey, message: Message) -> None:
        """The key that its maker itself signed: the server cannot put its own in its place."""
        taken, terms = self._under_way()
        whole = message.tensor(np.uint8, None).tobytes()
        key = SumKey(whole[: said.size], whole[said.size :], dict(said.sealed), said.sealing)
        bound = (terms.context, listed(terms.members), key.sealing, key.public, key.secret)
        self._signed_by(terms.keepers[0], said, KEY, *bound)
        taken.take(key)

    def _assent(self, there: vfl_pb2.There) -> None:
        asked, terms = self._under_way()
        asked.assent(there.members, there.digest)
        self._there = there
        bound = (terms.context, listed(there.members), there.digest)
        certificate, signature = self._signed(ASSENT, *bound)
        self._channel.send(vfl_pb2.Assent(certificate=certificate, signature=signature))

    def _gather_total(self, total: vfl_pb2.Total, message: Message) -> None:
        if self._total is None:
            raise RemoteProtocolError("says a sum that nothing was said for")
        found = self._total.add(total, message)
        if found is not None:
            self._whole = found.numpy().tobytes()

    def _open(self, assents: vfl_pb2.Assents) -> None:
        opener, terms = self._under_way()
        there = self._there
        if there is None:
            raise RemoteProtocolError("opens a sum before it asked for assent")
        for name, each in assents.assents.items():
            bound = (terms.context, listed(there.members), there.digest)
            self._signed_by(name, each, ASSENT, *bound)
        numbers = opener.opened(self._whole, assents.assents.keys())
        self._sum, self._whole = None, b""
        for start, part in parts(numbers):
            self._channel.send(vfl_pb2.Unsealed(start=start, size=len(numbers)), part)
        self._channel.send(vfl_pb2.Done())

    def _signed(self, purpose: str, *bound: bytes) -> tuple[bytes, bytes]:
        identity = self._party.keyring.identity
        return identity.der, identity.sign(purpose, self._party.digest, *bound)

    def _signed_by(
        self,
        name: str,
        said: "vfl_pb2.SealKey | vfl_pb2.SumKey | vfl_pb2.Assent",
        purpose: str,
        *bound: bytes,
    ) -> None:
        party, proof = self._party, (said.certificate, said.signature)
        signer = verify(party.trust, *proof, party.now(), purpose, party.digest, *bound)
        if signer != name:
            raise IdentityError(f"{signer} signed what {name} should have ({purpose})")

    def _under_way(self) -> tuple[CkksClient, Terms]:
        if self._sum is None or self._terms is None:
            raise RemoteProtocolError("speaks of a sum, and none is under way")
        return self._sum, self._terms
