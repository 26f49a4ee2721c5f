"""The loops over all rows of a column of the matrix, in NumPy."""

import numpy as np

from psi.aes import scaled
from psi.shared_types import Bytes, ColumnPlaces, Words


def places(words: Words, lane: int, limit: int) -> ColumnPlaces:
    """⌊word · limit / 2³²⌋ of one word of every row: [n, 4] → [n]."""
    return scaled(words[:, lane], limit)


def zeros_at(where: ColumnPlaces, rows: int) -> Bytes:
    """One column, packed to [rows / 8] uint8: 0 at the positions ``where``, else 1."""
    flags = np.ones(rows, np.uint8)
    flags[where] = 0
    return np.packbits(flags)


def read_bits(column: Bytes, where: ColumnPlaces, shift: int, octets: Bytes) -> None:
    """Add the bit of the packed ``column`` at ``where``, times 2^shift, to ``octets`` in place."""
    bits = np.unpackbits(column).take(where, mode="wrap")
    bits <<= np.uint8(shift)
    octets |= bits
