"""Growing arrays in memory; a large array moves to a temporary file.

The temporary file has no name, so that the system deletes it when the process ends.
"""

import tempfile
import weakref
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, BinaryIO

import numpy as np

from parties.common.errors import StorageError
from parties.data.sources.arrays import Array, Index
from psi.id_list import IdList

MEMORY = 512 << 20  # bytes up to which an array stays in memory


class ArrayStore:
    """A growing array of one type and width, with a digest of its rows."""

    def __init__(self, kind: type[Any], width: int | None = None, memory: int = MEMORY) -> None:
        self._kind, self._width, self._memory = np.dtype(kind), width, memory
        self._rows, self._bytes, self._digest = 0, bytearray(), sha256()
        self._file: BinaryIO | None = None

    def append(self, rows: Array) -> None:
        """Append ``rows``, ``[rows]`` or ``[rows, width]``.

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
        """Return all rows, ``[rows]`` or ``[rows, width]``; afterwards no row may be appended.

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
        """Return the SHA-256 of all rows appended so far."""
        return self._digest.digest()


def _full(error: OSError) -> StorageError:
    folder = tempfile.gettempdir()
    return StorageError(
        f"cannot write to {folder}: {error.strerror}",
        "large tables are stored there during the run; set TMPDIR to use another folder",
    )


class IdStore:
    """A growing list of IDs, stored as compact arrays."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._text, self._ends = (
            ArrayStore(np.uint8, memory=memory),
            ArrayStore(np.int64, memory=memory),
        )
        self._size = 0

    def append(self, ids: Sequence[bytes]) -> None:
        """Append ``ids``. Raises ``StorageError`` if the temporary folder is full."""
        ends = self._size + np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
        self._text.append(np.frombuffer(b"".join(ids), np.uint8))
        self._ends.append(ends)
        self._size = int(ends[-1]) if len(ends) else self._size

    def ids(self) -> IdList:
        """Return all IDs."""
        return IdList.from_text(self._text.array(), self._ends.array())

    def digest(self) -> bytes:
        """Return the SHA-256 of the IDs and their lengths."""
        return sha256(self._text.digest() + self._ends.digest()).digest()


def select_ids(ids: Sequence[bytes], rows: Index) -> IdList:
    """Return the IDs at the indices ``rows``, ``[n]``."""
    return IdList(ids[row] for row in rows.tolist())


def duplicate_ids(ids: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return a pair for each row whose ID is not new: the first row with this ID, and the row."""
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
