"""Exchange of journal events between a hub and its spokes, as tensors of bytes."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 8 << 20  # of the events in one message, unless a single event is larger

Bytes = NDArray[np.uint8]


def pack_events(encoded: Iterable[bytes]) -> Bytes:
    """Return events, each encoded as JSON without line breaks, as one tensor: [bytes].

    If the events are too large for one message, only the first ones are packed; the next exchange
    sends the others.
    """
    found, size = list[bytes](), 0
    for each in encoded:
        size += len(each) + 1
        if found and size > MOST_BYTES:
            break
        found.append(each)
    return np.frombuffer(b"\n".join(found) + b"\n", np.uint8)


def unpack_events(content: Bytes) -> list[bytes]:
    """Return the events that ``pack_events`` packed as ``content``, [bytes]."""
    return [line for line in content.tobytes().split(b"\n") if line]
