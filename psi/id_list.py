"""A list of IDs in little memory: one buffer for all of them, and where each begins."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

AT_ONCE = 1 << 16  # IDs that are objects at the same time while all are read


class IdList(Sequence[bytes]):
    """IDs as `bytes`, read-only; a list of objects takes five times the memory.

    Its repr shows none, since IDs are personal.
    """

    __slots__ = ("_bounds", "_buffer")

    def __init__(self, buffer: bytes, bounds: npt.NDArray[Any]) -> None:
        """ID i is ``buffer[bounds[i]:bounds[i + 1]]``."""
        self._buffer, self._bounds = buffer, bounds

    @classmethod
    def of(cls, ids: Iterable[bytes]) -> "IdList":
        """The same IDs in one buffer."""
        if isinstance(ids, IdList):
            return ids
        buffer, lengths = bytearray(), array("I", [0])
        for some in in_parts(ids, AT_ONCE):
            buffer += b"".join(some)
            lengths.extend(map(len, some))
        wide = np.uint32 if len(buffer) < 1 << 32 else np.uint64
        bounds = np.cumsum(np.frombuffer(lengths, np.uint32), dtype=wide)
        return cls(bytes(buffer), bounds)

    @property
    def digest(self) -> bytes:
        """SHA-256 over all IDs in their order; it stays at this party."""
        state = sha256(len(self).to_bytes(8, "big"))
        state.update(self._bounds.data)
        state.update(self._buffer)
        return state.digest()

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def __repr__(self) -> str:
        return f"IdList of {len(self)} IDs"

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> "list[bytes]": ...
    def __getitem__(self, index: int | slice) -> "bytes | list[bytes]":
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        return self._buffer[int(self._bounds[at]) : int(self._bounds[at + 1])]

    def __iter__(self) -> Iterator[bytes]:
        buffer = self._buffer
        for start in range(0, len(self), AT_ONCE):
            bounds = self._bounds[start : start + AT_ONCE + 1].tolist()
            for low, high in pairwise(bounds):
                yield buffer[low:high]


def in_parts(ids: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Cut ``ids`` into lists of at most ``size``."""
    source = iter(ids)
    while part := list(islice(source, size)):
        yield part
