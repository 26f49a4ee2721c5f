"""What every kind of secure aggregation has in common at a client: who may be summed, and what.

What a client learned stands in a sum as n Δ, then n and n times the loss, so that the server gets
the mean by rows without anybody's rows or loss.
"""

import torch

from configs.federated import Federated
from parties.common.errors import PolicyError
from parties.horizontal.local.local_task import Learned
from parties.horizontal.secure.masking.fixed_point import MOST, Overflow, Words, encoded
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

CONTEXT = 32  # bytes


def admitted(agreement: Federated, gather: vfl_pb2.Gather, known: set[bytes]) -> tuple[str, ...]:
    """The members of a new sum, whose context joins those that are ``known``.

    Raises:
        RemoteProtocolError: they are no clients, or the sum was gathered for before.
        PolicyError: they are fewer than was agreed on.
    """
    least, members = agreement.aggregation.least, tuple(gather.members)
    if len(set(members)) != len(members) or not {*members} <= {*agreement.spokes}:
        raise RemoteProtocolError("gathers members who are no clients, or one of them twice")
    if len(members) < least or gather.threshold < least:
        raise PolicyError(
            f"a sum of {len(members)}, opened by {gather.threshold}, is less than the agreed "
            f"{least} contributors",
            "aggregation.least says how many; wait for more clients",
        )
    if len(gather.context) != CONTEXT or gather.context in known:
        raise RemoteProtocolError("gathers for a sum that was opened before")
    known.add(gather.context)
    return members


class Outgrown(PolicyError):
    """An update that is too large for a sum, or not finite."""


def weighed(found: Learned, bits: int, members: int, most: float = MOST) -> Words:
    """What stands in a sum of so many members, in multiples of 2^-``bits``.

    Raises:
        Outgrown: it does not fit.
    """
    change = found.rows * found.change.double()
    rest = torch.tensor([found.rows, found.rows * found.loss], dtype=torch.float64)
    try:
        return encoded(torch.cat([change, rest]).numpy(), bits, members, most)
    except Overflow as error:
        raise Outgrown(f"an update does not fit into a sum: {error}") from error


def refuse_alone(kind: str) -> PolicyError:
    """The error of who is asked for its update alone."""
    return PolicyError(
        f"the server asks for a single update, and the agreement has aggregation = {kind!r}",
        "choose a way to forget that needs sums only",
    )
