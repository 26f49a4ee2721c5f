"""What must outlive a bucket of the intersection: in memory for a set in one piece, else in files.

A bucket is kept once it is complete. After a crash the next start goes on behind the last one, if
agreement and own rows are the same as before.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Protocol

import numpy as np

from parties.common.atomic_file import private, write
from parties.common.errors import StorageError
from psi.shared_types import Bytes

KEY = "key"


class Kept(Protocol):
    """Arrays of bytes by bucket: our own rows, which every start lays out anew, and results."""

    def lay(self, bucket: int, rows: Bytes) -> None:
        """Add to our own rows of a bucket."""

    def laid(self, bucket: int, width: int) -> Bytes:
        """All rows laid for a bucket: [n, width] uint8."""

    def keep(self, bucket: int, result: Bytes) -> None:
        """A bucket is complete."""

    def kept(self, bucket: int, width: int) -> Bytes:
        """The result of a complete bucket: [k, width] uint8."""


class InMemory:
    """Kept no longer than the process lives."""

    def __init__(self) -> None:
        self._laid: dict[int, list[Bytes]] = {}
        self._kept: dict[int, Bytes] = {}

    def lay(self, bucket: int, rows: Bytes) -> None:
        """See ``Kept``."""
        self._laid.setdefault(bucket, []).append(rows)

    def laid(self, bucket: int, width: int) -> Bytes:
        """See ``Kept``."""
        return np.concatenate([np.empty((0, width), np.uint8), *self._laid.get(bucket, [])])

    def keep(self, bucket: int, result: Bytes) -> None:
        """See ``Kept``."""
        self._kept[bucket] = result

    def kept(self, bucket: int, width: int) -> Bytes:
        """See ``Kept``."""
        return self._kept[bucket].reshape(-1, width)


class InFolder:
    """Kept in files; ``key`` names the agreement and the own rows for which they are valid."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key

    @property
    def done(self) -> int:
        """How many buckets, from the first on, are complete."""
        with self._storing():
            path = self._folder / KEY
            if not path.exists() or path.read_bytes() != self._key:
                return 0
            count = 0
            while self._result(count).exists():
                count += 1
            return count

    def begin(self, done: int) -> None:
        """Forget all but the first ``done`` results; these are valid from here on."""
        if done > self.done:
            raise StorageError(f"{self._folder} lost completed buckets", "start all parties again")
        valid = {self._folder / KEY, *map(self._result, range(done))} if done else set()
        with self._storing():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in set(self._folder.iterdir()) - valid:
                path.unlink()
        write(self._folder / KEY, self._key)

    def remove(self) -> None:
        """Forget everything."""
        if self._folder.exists():
            rmtree(self._folder)

    def lay(self, bucket: int, rows: Bytes) -> None:
        """See ``Kept``."""
        with self._storing(), open(self._own(bucket), "ab", opener=private) as file:
            file.write(np.ascontiguousarray(rows).data)

    def laid(self, bucket: int, width: int) -> Bytes:
        """See ``Kept``."""
        return self._read(self._own(bucket), width)

    def keep(self, bucket: int, result: Bytes) -> None:
        """See ``Kept``."""
        write(self._result(bucket), result.tobytes())

    def kept(self, bucket: int, width: int) -> Bytes:
        """See ``Kept``."""
        return self._read(self._result(bucket), width)

    def _read(self, path: Path, width: int) -> Bytes:
        with self._storing():
            content = np.fromfile(path, np.uint8) if path.exists() else np.empty(0, np.uint8)
        if len(content) % width:
            raise StorageError(f"{path} is damaged", f"remove {self._folder} and start again")
        return content.reshape(-1, width)

    def _own(self, bucket: int) -> Path:
        return self._folder / f"own-{bucket:05}"

    def _result(self, bucket: int) -> Path:
        return self._folder / f"result-{bucket:05}"

    @contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"cannot use {self._folder}: {error.strerror}", "is the disk full?"
            ) from error
