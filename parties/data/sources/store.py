"""Compact rows: arrays that grow at their end, in memory or, once they are large, in a file.

The file has no name: the system takes it away with the process, however that ends.
"""

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, BinaryIO

import numpy as np

from parties.common.errors import StorageError
from parties.data.sources.records import Array, Index
from psi.id_list import IdList

MEMORY = 512 << 20  # bytes of one store; beyond them it moves to a file


class ArrayStore:
    """Rows of one type and width, appended in order; it knows the digest of all of them."""

    def __init__(self, kind: type[Any], width: int | None = None, memory: int = MEMORY) -> None:
        self._kind, self._width, self._memory = np.dtype(kind), width, memory
        self._rows, self._bytes, self._digest = 0, bytearray(), sha256()
        self._file: BinaryIO | None = None

    def append(self, rows: Array) -> None:
        """Add ``rows``, [rows] or [rows, width].

        Raises:
            StorageError: the temporary folder is full.
        """
        content = np.ascontiguousarray(rows, self._kind).data.cast("B") if rows.size else b""
        self._digest.update(content)
        self._rows += len(rows)
        if self._file is None and len(self._bytes) + len(content) <= self._memory:
            self._bytes += content
            return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile()  # noqa: SIM115  closed with the store
                weakref.finalize(self, self._file.close)
                self._file.write(self._bytes)
                self._bytes = bytearray()
            self._file.write(content)
        except OSError as error:
            raise _full(error) from None

    def array(self) -> Array:
        """All rows; nothing may be appended afterwards.

        Raises:
            StorageError: the temporary folder is full.
        """
        shape = (self._rows,) if self._width is None else (self._rows, self._width)
        if self._file is None:
            return np.ndarray(shape, self._kind, self._bytes)
        try:
            self._file.flush()
            return np.memmap(self._file, self._kind, "r", shape=shape)
        except OSError as error:
            raise _full(error) from None

    def digest(self) -> bytes:
        """SHA-256 of the rows so far."""
        return self._digest.digest()


def _full(error: OSError) -> StorageError:
    folder = tempfile.gettempdir()
    return StorageError(
        f"cannot write to {folder}: {error.strerror}",
        "large tables wait there while the run lasts; TMPDIR names another folder",
    )


class IdStore:
    """Collects IDs."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._text, self._ends = (
            ArrayStore(np.uint8, memory=memory),
            ArrayStore(np.int64, memory=memory),
        )
        self._size = 0

    def append(self, ids: Sequence[bytes]) -> None:
        """Add ``ids``; raises ``StorageError``."""
        ends = self._size + np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
        self._text.append(np.frombuffer(b"".join(ids), np.uint8))
        self._ends.append(ends)
        self._size = int(ends[-1]) if len(ends) else self._size

    def ids(self) -> IdList:
        """All of them."""
        return IdList(self._each())

    def digest(self) -> bytes:
        """SHA-256 of IDs and their ends."""
        return sha256(self._text.digest() + self._ends.digest()).digest()

    def _each(self) -> Iterator[bytes]:
        text, ends, start = self._text.array(), self._ends.array(), 0
        for first in range(0, len(ends), 10_000):
            some = ends[first : first + 10_000].tolist()
            begin, block = start, text[start : some[-1]].tobytes()
            for end in some:
                yield block[start - begin : end - begin]
                start = end


def select_ids(ids: Sequence[bytes], rows: Index) -> IdList:
    """The IDs of the chosen rows."""
    return IdList(ids[row] for row in rows.tolist())


def duplicate_ids(ids: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pairs of rows with one ID: the first of them, and each later one."""
    hashes = np.fromiter(map(hash, ids), np.int64, len(ids))
    order = np.argsort(hashes, kind="stable")
    hashes = hashes[order]
    same = np.flatnonzero(hashes[1:] == hashes[:-1])
    first: dict[bytes, int] = {}
    pairs = []
    for row in np.unique(order[np.concatenate([same, same + 1])]).tolist():
        earlier = first.setdefault(ids[row], row)
        if earlier != row:
            pairs.append((earlier, row))
    return pairs
