"""NumPy kernels for one column of the OPRF matrix, and the choice between NumPy and Numba."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

import numpy as np

from psi.aes import scale_words
from psi.shared_types import Bytes, ColumnPlaces, Words

NUMBA_MIN_BUCKETS = 32  # about 4 million IDs; below, compiling takes longer than it saves


@dataclass(frozen=True, slots=True)
class ColumnKernels:
    """The three kernels, all implemented with NumPy or all implemented with Numba."""

    scale_lane: Callable[[Words, int, int], ColumnPlaces]
    pack_zeros: Callable[[ColumnPlaces, int], Bytes]
    read_bits: Callable[[Bytes, ColumnPlaces, int, Bytes], None]


def scale_lane(words: Words, lane: int, limit: int) -> ColumnPlaces:
    """⌊u · limit / 2³²⌋ for each word u in column ``lane`` of ``words`` [n, 4]: [n] int64."""
    return scale_words(words[:, lane], limit)


def pack_zeros(where: ColumnPlaces, rows: int) -> Bytes:
    """Pack ``rows`` bits, 0 at the positions ``where`` [n] and otherwise 1: [rows / 8] uint8."""
    flags = np.ones(rows, np.uint8)
    flags[where] = 0
    return np.packbits(flags)


def read_bits(column: Bytes, where: ColumnPlaces, shift: int, octets: Bytes) -> None:
    """Copy bit ``where[i]`` of ``column`` into bit ``shift`` of the byte ``octets[i]``, for all i.

    Args:
        column: the packed column, [rows / 8] uint8.
        where: the positions to read, [n].
        shift: number of the bit in the byte; 7 is the most significant bit.
        octets: [n] uint8, changed in place; bit ``shift`` must be 0 before the call.
    """
    bits = np.unpackbits(column).take(where, mode="wrap")
    bits <<= np.uint8(shift)
    octets |= bits


NUMPY_KERNELS = ColumnKernels(scale_lane, pack_zeros, read_bits)


@lru_cache
def numba_kernels() -> ColumnKernels | None:
    """The three kernels, compiled by Numba; None if Numba is not installed."""
    if find_spec("numba") is None:
        return None
    from psi import column_kernels_numba as compiled  # noqa: PLC0415  takes a second to load

    return ColumnKernels(
        compiled.scale_lane_numba, compiled.pack_zeros_numba, compiled.read_bits_numba
    )


def select_kernels(buckets: int) -> ColumnKernels:
    """The fastest kernels for a run with ``buckets`` buckets; all kernels have the same results."""
    return (numba_kernels() if buckets >= NUMBA_MIN_BUCKETS else None) or NUMPY_KERNELS
