"""A compact list of IDs that cannot be changed; a few large buffers hold the bytes of all IDs."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from psi.shared_types import Bytes

CHUNK_IDS = (
    1 << 16
)  # IDs per buffer, and maximum number of Python objects at once while IDs are read


class IdList(Sequence[bytes]):
    """A sequence of IDs as `bytes`; it needs a fifth of the memory of a Python list.

    The repr shows no ID, because IDs are personal data.
    """

    __slots__ = ("_bounds", "_buffers", "_each")

    def __init__(self, ids: Iterable[bytes]) -> None:
        self._each = CHUNK_IDS  # IDs in every buffer but the last
        self._buffers: list[bytes] = []
        bounds = []
        for chunk in chunked(ids, self._each):
            self._buffers.append(b"".join(chunk))
            bounds.append(np.cumsum([0, *map(len, chunk)]).astype(np.uint32))
        # One array for all buffers: a buffer of n IDs has n + 1 bounds.
        self._bounds = np.concatenate([np.empty(0, np.uint32), *bounds])

    @classmethod
    def of(cls, ids: Iterable[bytes]) -> "IdList":
        """``ids`` as an IdList; an IdList is returned unchanged."""
        return ids if isinstance(ids, IdList) else cls(ids)

    @classmethod
    def from_text(cls, text: Bytes, ends: npt.NDArray[np.int64]) -> "IdList":
        """The IDs in ``text`` [bytes] uint8, one after another; ``ends`` [n] are their ends."""
        ids = cls(())
        starts, bounds = np.concatenate([[0], ends[:-1]]), []
        for first in range(0, len(ends), ids._each):
            low, high = int(starts[first]), ends[first : first + ids._each]
            ids._buffers.append(text[low : int(high[-1])].tobytes())
            bounds.append(np.concatenate([[0], high - low]).astype(np.uint32))
        ids._bounds = np.concatenate([ids._bounds, *bounds])
        return ids

    @property
    def digest(self) -> bytes:
        """SHA-256 over all IDs in list order: 32 bytes. Do not send the digest to another party."""
        state = sha256(self._bounds.data)
        for buffer in self._buffers:
            state.update(buffer)
        return state.digest()

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Iterator[bytes]:
        """The IDs at ``rows`` [n], in the order of ``rows``."""
        for start in range(0, len(rows), CHUNK_IDS):
            part = rows[start : start + CHUNK_IDS].astype(np.int64)
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


def chunked(ids: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    """Cut ``ids`` into lists of at most ``size`` IDs."""
    source = iter(ids)
    while chunk := list(islice(source, size)):
        yield chunk
