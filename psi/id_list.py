"""A list of IDs in little memory: a few large buffers, and where each ID begins in them."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

AT_ONCE = 1 << 16  # IDs in a buffer; so many are objects at the same time while all are read


class IdList(Sequence[bytes]):
    """IDs as `bytes`, read-only; a list of objects takes five times the memory.

    Its repr shows none, since IDs are personal.
    """

    __slots__ = ("_bounds", "_buffers", "_each")

    def __init__(self, ids: Iterable[bytes]) -> None:
        self._each = AT_ONCE  # IDs in every buffer but the last
        self._buffers: list[bytes] = []
        bounds = []
        for part in in_parts(ids, self._each):
            self._buffers.append(b"".join(part))
            bounds.append(np.cumsum([0, *map(len, part)]).astype(np.uint32))
        # One array for all, with a bound more in every buffer than it has IDs.
        self._bounds = np.concatenate([np.empty(0, np.uint32), *bounds])

    @classmethod
    def of(cls, ids: Iterable[bytes]) -> "IdList":
        """The same IDs, as a compact list."""
        return ids if isinstance(ids, IdList) else cls(ids)

    @property
    def digest(self) -> bytes:
        """SHA-256 over all IDs in their order; it stays at this party."""
        state = sha256(self._bounds.data)
        for buffer in self._buffers:
            state.update(buffer)
        return state.digest()

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """The IDs at ``rows``, in their order."""
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE].astype(np.int64)
            numbers = part // self._each
            low = part + numbers
            bounds = self._bounds.take(low).tolist(), self._bounds.take(low + 1).tolist()
            for number, first, end in zip(numbers.tolist(), *bounds, strict=True):
                yield self._buffers[number][first:end]

    def __len__(self) -> int:
        return len(self._bounds) - len(self._buffers)

    def __repr__(self) -> str:
        return f"IdList of {len(self)} IDs"

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return [self[at] for at in range(len(self))[index]]
        at = range(len(self))[index]
        number = at // self._each
        low, high = self._bounds[at + number : at + number + 2].tolist()
        return self._buffers[number][low:high]

    def __iter__(self) -> Iterator[bytes]:
        for number, buffer in enumerate(self._buffers):
            start = number * (self._each + 1)
            bounds = self._bounds[start : start + self._each + 1].tolist()
            for low, high in pairwise(bounds):
                yield buffer[low:high]


def in_parts(ids: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Cut ``ids`` into lists of at most ``size``."""
    source = iter(ids)
    while part := list(islice(source, size)):
        yield part
