"""Common rules of secure aggregation at a client: members of a sum, and encoding of an update.

A client's vector in a sum contains three parts in this order: n Δ, n, and n times the loss (n =
number of the client's rows, Δ = the client's update). The server therefore receives the mean update
weighted by rows, but not the number of rows or the loss of a single client.
"""

import torch

from configs.federated import FederatedAgreement
from parties.common.errors import PolicyError
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.secure.masking.fixed_point import (
    MAX_FIXED_POINT,
    FixedPointOverflow,
    Words,
    encode_fixed_point,
)
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

CONTEXT_BYTES = 32


def check_sum_members(
    agreement: FederatedAgreement, start: vfl_pb2.StartSum, known_contexts: set[bytes]
) -> tuple[str, ...]:
    """Return the members of a new sum and add the sum's context to ``known_contexts``.

    Raises:
        RemoteProtocolError: a member is not a client or is named twice, or the context is invalid
            or was used before.
        PolicyError: the sum has fewer members or a lower threshold than agreed.
    """
    min_contributors, members = agreement.aggregation.min_contributors, tuple(start.members)
    if len(set(members)) != len(members) or not {*members} <= {*agreement.spokes}:
        raise RemoteProtocolError(
            "the server started a sum that names a party that is not a client, or names a client "
            "twice"
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


def single_update_error(kind: str) -> PolicyError:
    """Return the error that refuses the server a request for the update of a single client."""
    return PolicyError(
        f"the server requests the update of one client, but aggregation.kind = {kind!r} allows "
        "only sums of updates",
        "choose an unlearning method that needs only sums",
    )
