"""Common rules of secure aggregation at a client: members of a sum, and encoding of an update.

A client's vector in a sum contains three parts in this order: n Δ, n, and n times the loss (n =
number of the client's rows, Δ = the client's update). The server therefore receives the mean update
weighted by rows, but not the number of rows or the loss of a single client.
"""

from dataclasses import replace
from typing import TypeAlias

import torch

from parties.common.errors import PolicyError
from parties.horizontal.engine.party import FederatedContext
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.secure.masking.fixed_point import (
    MAX_FIXED_POINT,
    FixedPointOverflow,
    Words,
    encode_fixed_point,
)
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.credentials import verify_signature
from protocol.dataclass_codec import encode
from protocol.errors import RemoteProtocolError

Signed: TypeAlias = vfl_pb2.SealingKey | vfl_pb2.SumKey | vfl_pb2.Approve | vfl_pb2.MaskKeys
CONTEXT_BYTES = 32


def check_sum_members(
    party: FederatedContext, start: vfl_pb2.StartSum, known_contexts: set[bytes]
) -> tuple[str, ...]:
    """Return the members of a new sum and add the sum's context to ``known_contexts``.

    Raises:
        RemoteProtocolError: a member is not a client or is named twice, this client is no member,
            or the context is invalid or was used before.
        PolicyError: the sum has fewer members or a lower threshold than agreed.
    """
    agreement, members = party.agreement, tuple(start.members)
    min_contributors = agreement.aggregation.min_contributors
    unique = len(set(members)) == len(members)
    if not unique or not {party.name} <= {*members} <= {*agreement.spokes}:
        raise RemoteProtocolError(
            "the server started a sum that names a party that is not a client, names a client "
            f"twice, or does not name {party.name}"
        )
    if len(members) < min_contributors or start.threshold < min_contributors:
        raise PolicyError(
            f"the server started a sum of {len(members)} members with threshold {start.threshold}, "
            f"expected at least {min_contributors} members and threshold {min_contributors}",
            "wait for more clients, or agree on a smaller aggregation.min_contributors",
        )
    if len(start.context) != CONTEXT_BYTES or start.context in known_contexts:
        raise RemoteProtocolError(
            "the server started a sum whose context (the random number that identifies a sum) has "
            "a wrong length, or was used before"
        )
    known_contexts.add(start.context)
    return members


class SumClient:
    """A client's part in sums of updates: its channel, its signatures and those of other members.

    Args:
        party: the client.
        channel: the channel to the server.
    """

    def __init__(self, party: FederatedContext, channel: Channel) -> None:
        self._party, self._channel = party, channel
        self._known_contexts = set[bytes]()

    def _encode(
        self, update: LocalUpdate, bits: int, members: int, most: float = MAX_FIXED_POINT
    ) -> Words | None:
        """Return an update as fixed-point numbers, ``[d + 2]``; warn and return None if too large.

        A number has ``bits`` fraction bits. A sum over ``members`` members is at most ``most`` in
        absolute value.
        """
        try:
            return encode_update(update, bits, members, most)
        except UpdateTooLarge as error:
            self._party.progress.warn(str(error))
            return None

    def _sign(self, purpose: str, *bound: bytes) -> tuple[bytes, bytes]:
        """Return the client's certificate, and its signature of the agreement and ``bound``."""
        identity = self._party.keyring.identity
        return identity.der, identity.sign(purpose, self._party.digest, *bound)

    def _signer(self, signed: Signed, purpose: str, *bound: bytes) -> str:
        """Return the name of the member that signed the agreement and ``bound``.

        Raises:
            IdentityError: the certificate or the signature is invalid.
        """
        party, proof = self._party, (signed.certificate, signed.signature)
        return verify_signature(party.trust, *proof, party.now(), purpose, party.digest, *bound)


class UpdateTooLarge(PolicyError):
    """An update exceeds the range of secure aggregation, or is not finite."""


def encode_update(
    update: LocalUpdate, bits: int, members: int, most: float = MAX_FIXED_POINT
) -> Words:
    """Return an update as fixed-point numbers for a sum, ``[d + 2]``.

    Args:
        update: the client's update.
        bits: number of fraction bits.
        members: number of members of the sum.
        most: largest absolute value of a number in the sum.

    Raises:
        UpdateTooLarge: the absolute value of a number exceeds ``most / members``, or a number is
            not finite.
    """
    weighted = update.rows * update.delta.double()
    rest = torch.tensor([update.rows, update.rows * update.loss], dtype=torch.float64)
    try:
        return encode_fixed_point(torch.cat([weighted, rest]).numpy(), bits, members, most)
    except FixedPointOverflow as error:
        raise UpdateTooLarge(
            f"the update exceeds the range of secure aggregation: {error}"
        ) from error


def hidden_update(update: LocalUpdate, loss: float) -> vfl_pb2.LocalUpdate:
    """Return the message after the vector of a sum, which hides what only the vector contains.

    The number of steps is hidden, too, because the number of rows follows from it. ``loss`` is 0 if
    the client sends the vector, and NaN if it does not.
    """
    return encode(replace(update, rows=0, loss=loss, steps=0, tokens=0), vfl_pb2.LocalUpdate)


def single_update_error(kind: str) -> PolicyError:
    """Return the error that refuses the server a request for the update of a single client."""
    return PolicyError(
        f"the server requests the update of one client, but aggregation.kind = {kind!r} allows "
        "only sums of updates",
        "choose an unlearning method that needs only sums",
    )
