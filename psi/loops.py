"""Which loops run over a column: NumPy's, or for very large sets Numba's where it is installed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec

from psi import plain
from psi.shared_types import Bytes, ColumnPlaces, Words

WORTH_COMPILING = 32  # buckets, about 4 million IDs


@dataclass(frozen=True, slots=True)
class Loops:
    """The same three functions from one of two files."""

    places: Callable[[Words, int, int], ColumnPlaces]
    zeros_at: Callable[[ColumnPlaces, int], Bytes]
    read_bits: Callable[[Bytes, ColumnPlaces, int, Bytes], None]


PLAIN = Loops(plain.places, plain.zeros_at, plain.read_bits)


@lru_cache
def compiled() -> Loops | None:
    """Numba's; None where it is not installed."""
    if find_spec("numba") is None:
        return None
    from psi import compiled as fast  # noqa: PLC0415  slow to load

    return Loops(fast.places, fast.zeros_at, fast.read_bits)


def loops(buckets: int) -> Loops:
    """What is quicker for so many buckets; the results are equal byte for byte."""
    return (compiled() if buckets >= WORTH_COMPILING else None) or PLAIN
