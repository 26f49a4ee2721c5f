"""A client's messages in encrypted sums; ``encryption.client`` encrypts and decrypts."""

from collections.abc import Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.horizontal.engine.party import FederatedContext
from parties.horizontal.engine.wire import VectorAssembler, split_vector
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.secure.encryption.ckks import MAX_SUM, CkksError, max_ciphertext_bytes
from parties.horizontal.secure.encryption.client import (
    CkksClient,
    SumKey,
    SumTerms,
    ciphertext_count,
)
from parties.horizontal.secure.sums import (
    Signed,
    SumClient,
    check_sum_members,
    hidden_update,
    single_update_error,
)
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import IdentityError, RemoteProtocolError
from protocol.message import Message

ENCRYPTED_FRACTION_BITS = 16
# Domains of the signatures.
PURPOSE, KEY, APPROVAL = "sealing key of a sum", "key of a sum", "sum to open"


def select_key_holders(named: Sequence[str], members: Sequence[str]) -> tuple[str, ...]:
    """Return the members that receive the secret key of a sum.

    The key holders are the members in ``named``, or all members if ``named`` is empty.
    """
    return tuple(each for each in members if not named or each in named)


def join_names(names: Sequence[str]) -> bytes:
    """Join names to one byte string, so that the names can be signed together."""
    return "\n".join(names).encode()


class EncryptedSumClient(SumClient):
    """The client's side of the current encrypted sum; the client sends only encrypted updates."""

    def __init__(self, party: FederatedContext, channel: Channel) -> None:
        super().__init__(party, channel)
        self._sum: CkksClient | None = None
        self._terms: SumTerms | None = None
        self._present: vfl_pb2.Present | None = None
        self._assembler: VectorAssembler | None = None
        self._ciphertexts = b""

    def handle(self, message: Message) -> None:
        """Handle a message from the server about a sum of updates.

        Raises:
            RemoteProtocolError: the message does not belong to an encrypted sum.
            PolicyError: the message would reveal more than a sum, or contains a wrong key or a
                wrong sum.
        """
        try:
            match message.body:
                case vfl_pb2.StartSum() as start:
                    self._start(start)
                case vfl_pb2.ShareKey() as request:
                    self._make_key(request)
                case vfl_pb2.SumKey() as key:
                    self._load_key(key, message)
                case vfl_pb2.Present() as present:
                    self._approve(present)
                case vfl_pb2.CiphertextSum() as part:
                    self._receive_sum(part, message)
                case vfl_pb2.Approvals() as approvals:
                    self._decrypt(approvals)
                case _:
                    raise RemoteProtocolError(
                        f"the server sent a {message.kind} message, which clients do not accept "
                        "in an encrypted sum"
                    )
        except CkksError as error:
            raise PolicyError(
                f"{self._party.name} refuses to continue the encrypted sum: {error}"
            ) from error

    def require_sum(self) -> None:
        """Check that an update can be sent now.

        Raises:
            PolicyError: no sum is open, or this client has already sent its ciphertexts.
        """
        if self._sum is None or not self._sum.can_encrypt:
            raise single_update_error("ckks")

    def protect(self, found: LocalUpdate) -> "tuple[NDArray[np.uint8], vfl_pb2.LocalUpdate]":
        """Return the ciphertexts of an update, ``[bytes]``, and the message to send after them.

        An update that exceeds the range of the sum is not sent: the vector is empty and the loss is
        NaN.

        Raises:
            PolicyError: no sum is open, or this client has already sent its ciphertexts.
        """
        self.require_sum()
        member, terms = self._current_sum()
        words = self._encode(found, ENCRYPTED_FRACTION_BITS, len(terms.members), MAX_SUM)
        if words is None:
            return np.empty(0, np.uint8), hidden_update(found, nan)
        ciphertexts = member.encrypt(words.view(np.int64))
        self._assembler = VectorAssembler(
            max_ciphertext_bytes(ciphertext_count(len(words))), np.dtype(np.uint8)
        )
        return np.frombuffer(ciphertexts, np.uint8), hidden_update(found, 0.0)

    def _start(self, start: vfl_pb2.StartSum) -> None:
        party = self._party
        members = check_sum_members(party, start, self._known_contexts)
        holders = select_key_holders(party.agreement.aggregation.key_holders, members)
        if not holders:
            raise RemoteProtocolError("the server started a sum without a key holder")
        self._terms = SumTerms(members, holders, start.threshold, start.context)
        self._sum = CkksClient(party.name, self._terms, party.entropy)
        self._present, self._assembler, self._ciphertexts = None, None, b""
        sealing = self._sum.sealing
        certificate, signature = self._sign(PURPOSE, start.context, sealing)
        self._channel.send(
            vfl_pb2.SealingKey(sealing=sealing, certificate=certificate, signature=signature)
        )

    def _make_key(self, request: vfl_pb2.ShareKey) -> None:
        member, terms = self._current_sum()
        others = {}
        for name, each in request.keys.items():
            self._check_signature(name, each, PURPOSE, terms.context, each.sealing)
            others[name] = each.sealing
        key = member.make_key(others)
        bound = (terms.context, join_names(terms.members), key.sealing, key.public, key.secret)
        certificate, signature = self._sign(KEY, *bound)
        reply = vfl_pb2.SumKey(
            size=len(key.public),
            sealed=key.sealed,
            sealing=key.sealing,
            certificate=certificate,
            signature=signature,
        )
        self._channel.send(reply, np.frombuffer(key.public + key.secret, np.uint8))

    def _load_key(self, body: vfl_pb2.SumKey, message: Message) -> None:
        """Load the key, which its maker signed itself: the server cannot replace it."""
        member, terms = self._current_sum()
        whole = message.tensor(np.uint8, None).tobytes()
        key = SumKey(whole[: body.size], whole[body.size :], dict(body.sealed), body.sealing)
        bound = (terms.context, join_names(terms.members), key.sealing, key.public, key.secret)
        self._check_signature(terms.key_holders[0], body, KEY, *bound)
        member.load_key(key)

    def _approve(self, present: vfl_pb2.Present) -> None:
        member, terms = self._current_sum()
        member.approve(present.members, present.digest)
        self._present = present
        bound = (terms.context, join_names(present.members), present.digest)
        certificate, signature = self._sign(APPROVAL, *bound)
        self._channel.send(vfl_pb2.Approve(certificate=certificate, signature=signature))

    def _receive_sum(self, part: vfl_pb2.CiphertextSum, message: Message) -> None:
        if self._assembler is None:
            raise RemoteProtocolError(
                "the server sent a sum of ciphertexts before this client sent its update"
            )
        found = self._assembler.add(part, message)
        if found is not None:
            self._ciphertexts = found.numpy().tobytes()

    def _decrypt(self, approvals: vfl_pb2.Approvals) -> None:
        member, terms = self._current_sum()
        present = self._present
        if present is None:
            raise RemoteProtocolError(
                "the server requested the decryption of a sum that this client has not approved"
            )
        for name, each in approvals.approvals.items():
            bound = (terms.context, join_names(present.members), present.digest)
            self._check_signature(name, each, APPROVAL, *bound)
        numbers = member.decrypt_sum(self._ciphertexts, approvals.approvals.keys())
        self._sum, self._ciphertexts = None, b""
        for start, part in split_vector(numbers):
            self._channel.send(vfl_pb2.DecryptedSum(start=start, size=len(numbers)), part)
        self._channel.send(vfl_pb2.Done())

    def _check_signature(self, name: str, signed: Signed, purpose: str, *bound: bytes) -> None:
        signer = self._signer(signed, purpose, *bound)
        if signer != name:
            raise IdentityError(f"the {purpose} of {name} is signed by {signer}, not by {name}")

    def _current_sum(self) -> tuple[CkksClient, SumTerms]:
        if self._sum is None or self._terms is None:
            raise RemoteProtocolError(
                "the server sent a message about a sum of updates, but this client takes part in "
                "no sum now"
            )
        return self._sum, self._terms
