"""A split of the common rows by time: the active party sends the part of each row, but no date."""

from collections import Counter
from math import ceil

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.rows import IN_TEST, IN_TRAINING, IN_VALIDATION, time_parts
from protocol import vfl_pb2
from protocol.channel import Channel
from protocol.errors import RemoteProtocolError
from protocol.hub import Hub


def send_parts(party: VerticalParty, hub: Hub, rows: Index) -> NDArray[np.uint8] | None:
    """Divide the common rows by time, and send their parts to every passive party.

    Args:
        party: the active party, which has the dates.
        hub: the channels to the passive parties.
        rows: [common_rows], the party's own row number of each common row.

    Returns:
        The parts, [common_rows]; None for other kinds of split.

    Raises:
        LookupError: the party has no dates.
        PolicyError: too many rows have one date, so that no training or validation rows are left.
    """
    if party.agreement.split.kind != "time":
        return None
    if party.holding.times is None:
        raise LookupError("the active party's data has no dates")
    parts = time_parts(party.agreement.split, party.holding.times[rows])
    for part, name in ((IN_TRAINING, "training"), (IN_VALIDATION, "validation")):
        if not (parts == part).any():
            raise PolicyError(
                f"the split by time leaves no {name} rows: rows of one date stay together, and the "
                f"{len(rows)} common rows have too few different dates",
                "use a column with finer dates, or split.kind = 'keyed'",
            )
    hub.broadcast(vfl_pb2.SplitRows(), parts)
    return parts


def receive_parts(party: VerticalParty, channel: Channel, count: int) -> NDArray[np.uint8] | None:
    """Receive the parts of the ``count`` common rows in a split by time.

    Returns:
        The parts, [common_rows]; None for other kinds of split.

    Raises:
        RemoteProtocolError: the hub sent something else, or fewer rows of a part than agreed.
    """
    plan = party.agreement.split
    if plan.kind != "time":
        return None
    message = channel.receive(party.limits.idle_seconds)
    message.expect(vfl_pb2.SplitRows)
    (parts,) = message.tensors
    if parts.dtype != np.uint8 or parts.shape != (count,):
        raise RemoteProtocolError(
            f"the hub sent the parts of a split by time with type {parts.dtype} and shape "
            f"{parts.shape}; expected bytes, one for each of the {count} common rows"
        )
    found = Counter(parts.tolist())
    if found.keys() - {IN_TRAINING, IN_VALIDATION, IN_TEST}:
        raise RemoteProtocolError("the hub sent an unknown part of a split by time")
    for name, part, share in (
        ("validation", IN_VALIDATION, plan.validation),
        ("test", IN_TEST, plan.test or 0.0),
    ):
        # Ties make a part larger, and leave fewer rows for the validation, but never none.
        least = ceil(share * count) if part == IN_TEST else 1
        if found[part] < least:
            raise RemoteProtocolError(
                f"the hub sent a split by time with {found[part]} {name} rows of {count}; the "
                f"agreement requires at least {least}"
            )
    return parts.copy()
