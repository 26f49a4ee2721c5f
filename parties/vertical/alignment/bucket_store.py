"""Storage for the buckets of an intersection: in memory for a single bucket, otherwise in files.

The result of a bucket is written when the bucket is complete. After a crash, the next start
continues after the last complete bucket, if the agreement and this party's rows are unchanged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import Protocol

import numpy as np

from parties.common.atomic_file import open_private, write_atomically
from parties.common.errors import StorageError
from psi.shared_types import Bytes

KEY = "key"


class BucketStore(Protocol):
    """Stores this party's rows and the result of each bucket; each start adds the rows again."""

    def add_rows(self, bucket: int, rows: Bytes) -> None:
        """Add this party's ``rows``, [n, width] uint8, to a bucket."""

    def read_rows(self, bucket: int, width: int) -> Bytes:
        """All rows that were added to a bucket, [n, width] uint8."""

    def write_result(self, bucket: int, result: Bytes) -> None:
        """Store the result of a complete bucket, [k, width] uint8."""

    def read_result(self, bucket: int, width: int) -> Bytes:
        """The result of a complete bucket, [k, width] uint8."""


class MemoryBucketStore:
    """Bucket store in memory; the content is lost when the process ends."""

    def __init__(self) -> None:
        self._rows: dict[int, list[Bytes]] = {}
        self._results: dict[int, Bytes] = {}

    def add_rows(self, bucket: int, rows: Bytes) -> None:
        """Add this party's ``rows``, [n, width] uint8, to a bucket."""
        self._rows.setdefault(bucket, []).append(rows)

    def read_rows(self, bucket: int, width: int) -> Bytes:
        """All rows that were added to a bucket, [n, width] uint8."""
        return np.concatenate([np.empty((0, width), np.uint8), *self._rows.get(bucket, [])])

    def write_result(self, bucket: int, result: Bytes) -> None:
        """Store the result of a complete bucket, [k, width] uint8."""
        self._results[bucket] = result

    def read_result(self, bucket: int, width: int) -> Bytes:
        """The result of a complete bucket, [k, width] uint8."""
        return self._results[bucket].reshape(-1, width)


class FolderBucketStore:
    """Bucket store in files, valid only for the agreement and the rows that ``key`` identifies."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key

    @property
    def completed(self) -> int:
        """Number of complete buckets before the first incomplete bucket."""
        with self._storing():
            path = self._folder / KEY
            if not path.exists() or path.read_bytes() != self._key:
                return 0
            count = 0
            while self._result(count).exists():
                count += 1
            return count

    def begin(self, completed: int) -> None:
        """Keep the results of the first ``completed`` buckets, and delete all other results.

        Raises:
            StorageError: fewer than ``completed`` buckets are complete.
        """
        if completed > self.completed:
            raise StorageError(
                f"files of completed buckets disappeared from {self._folder}",
                "start all parties again",
            )
        valid = {self._folder / KEY, *map(self._result, range(completed))} if completed else set()
        with self._storing():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in set(self._folder.iterdir()) - valid:
                path.unlink()
        write_atomically(self._folder / KEY, self._key)

    def remove(self) -> None:
        """Delete all files."""
        if self._folder.exists():
            rmtree(self._folder)

    def add_rows(self, bucket: int, rows: Bytes) -> None:
        """Append this party's ``rows``, [n, width] uint8, to the file of a bucket."""
        with self._storing(), open(self._own(bucket), "ab", opener=open_private) as file:
            file.write(np.ascontiguousarray(rows).data)

    def read_rows(self, bucket: int, width: int) -> Bytes:
        """All rows that were added to a bucket, [n, width] uint8."""
        return self._read(self._own(bucket), width)

    def write_result(self, bucket: int, result: Bytes) -> None:
        """Write the result of a complete bucket, [k, width] uint8."""
        write_atomically(self._result(bucket), result.tobytes())

    def read_result(self, bucket: int, width: int) -> Bytes:
        """The result of a complete bucket, [k, width] uint8."""
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
                f"cannot use {self._folder}: {error.strerror}",
                "check the permissions of the folder and the free space of the disk",
            ) from error
