"""A list of IDs in little memory: a few large buffers, and where each ID begins in them."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice, pairwise
from typing import overload

import numpy as np
import numpy.typing as npt

AT_ONCE = 1 << 16  # IDs in a buffer; so many are objects at the same time while all are read


class IdList(Sequence[bytes]):
    """IDs as `bytes`, read-only; a list of objects takes five times the memory.

    Its repr shows none, since IDs are personal.
    """

    __slots__ = ("_bounds", "_buffers", "_each", "_length")

    def __init__(self, ids: Iterable[bytes]) -> None:
        self._each = AT_ONCE  # in every buffer but the last
        self._length = 0
        self._buffers: list[bytes] = []
        self._bounds: list[npt.NDArray[np.uint32]] = []  # of each buffer's IDs
        for part in in_parts(ids, self._each):
            self._buffers.append(b"".join(part))
            ends = np.cumsum([0, *map(len, part)])
            self._bounds.append(ends.astype(np.uint32))
            self._length += len(part)

    @classmethod
    def of(cls, ids: Iterable[bytes]) -> "IdList":
        """The same IDs, as a compact list."""
        return ids if isinstance(ids, IdList) else cls(ids)

    @property
    def digest(self) -> bytes:
        """SHA-256 over all IDs in their order; it stays at this party."""
        state = sha256()
        for buffer, bounds in zip(self._buffers, self._bounds, strict=True):
            state.update(bounds.data)
            state.update(buffer)
        return state.digest()

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"IdList of {len(self)} IDs"

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[at] for at in range(self._length)[index]]
        number, at = divmod(range(self._length)[index], self._each)
        low, high = self._bounds[number][at : at + 2].tolist()
        return self._buffers[number][low:high]

    def __iter__(self) -> Iterator[bytes]:
        for buffer, bounds in zip(self._buffers, self._bounds, strict=True):
            for low, high in pairwise(bounds.tolist()):
                yield buffer[low:high]


def in_parts(ids: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Cut ``ids`` into lists of at most ``size``."""
    source = iter(ids)
    while part := list(islice(source, size)):
        yield part
