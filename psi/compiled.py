"""The loops of `plain` compiled by Numba, an optional extra: the same bytes in half the time.

Imported for very large sets only, since loading and compiling takes a second or two.
"""

import numpy as np
from numba import njit

from psi.shared_types import Bytes, ColumnPlaces, Words


@njit(nogil=True)
def places(words: Words, lane: int, limit: int) -> ColumnPlaces:
    """See ``plain.places``."""
    out = np.empty(len(words), np.uint32)
    for row in range(len(words)):
        out[row] = np.uint32(np.uint64(words[row, lane]) * np.uint64(limit) >> np.uint64(32))
    return out


@njit(nogil=True)
def zeros_at(where: ColumnPlaces, rows: int) -> Bytes:
    """See ``plain.zeros_at``."""
    flags = np.ones(rows, np.uint8)
    for at in where:
        flags[at] = 0
    packed = np.empty(rows // 8, np.uint8)
    for octet in range(rows // 8):
        bits = np.uint8(0)
        for bit in range(8):
            bits = np.uint8(bits << np.uint8(1) | flags[8 * octet + bit])
        packed[octet] = bits
    return packed


@njit(nogil=True)
def read_bits(column: Bytes, where: ColumnPlaces, shift: int, octets: Bytes) -> None:
    """See ``plain.read_bits``."""
    for row in range(len(where)):
        at = where[row]
        bit = column[at >> np.uint32(3)] >> np.uint8(np.uint32(7) - (at & np.uint32(7)))
        octets[row] |= np.uint8((bit & np.uint8(1)) << np.uint8(shift))
