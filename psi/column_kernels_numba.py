"""The kernels of `column_kernels`, compiled by Numba: same results in half the time of NumPy.

Numba is an optional dependency. This module is imported for very large sets only, because loading
and compiling takes one or two seconds.
"""

import numpy as np
from numba import njit

from psi.shared_types import Bytes, ColumnPlaces, Words


@njit(nogil=True)
def scale_lane_numba(words: Words, lane: int, limit: int) -> ColumnPlaces:
    """⌊u · limit / 2³²⌋ for each word u in column ``lane`` of ``words`` [n, 4]: [n] uint32."""
    out = np.empty(len(words), np.uint32)
    for row in range(len(words)):
        out[row] = np.uint32(np.uint64(words[row, lane]) * np.uint64(limit) >> np.uint64(32))
    return out


@njit(nogil=True)
def pack_zeros_numba(where: ColumnPlaces, rows: int) -> Bytes:
    """Pack ``rows`` bits, 0 at the positions ``where`` [n] and otherwise 1: [rows / 8] uint8."""
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
def read_bits_numba(column: Bytes, where: ColumnPlaces, shift: int, octets: Bytes) -> None:
    """Copy bit ``where[i]`` of ``column`` [rows / 8] to bit ``shift`` of ``octets`` [n], for all i.

    The bits that are written must be 0 before the call.
    """
    for row in range(len(where)):
        at = where[row]
        bit = column[at >> np.uint32(3)] >> np.uint8(np.uint32(7) - (at & np.uint32(7)))
        octets[row] |= np.uint8((bit & np.uint8(1)) << np.uint8(shift))
