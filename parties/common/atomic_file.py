"""Files that survive a crash and a loss of power: each has either its old or its new content.

``fsync`` of a file does not make its name durable: that is ``fsync`` of the folder.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parties.common.errors import StorageError


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path``; after a crash the file has either the old or the new content.

    Only the owner may read the file, because the file may contain labels or row numbers.

    Raises:
        StorageError: the file cannot be written; the old file is unchanged.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with open(beside, "wb", opener=open_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(
            f"cannot write {path}: {error.strerror}", "check that the disk is not full"
        ) from error
    except BaseException:  # SIGTERM or Ctrl-C while the file was being written
        beside.unlink(missing_ok=True)
        raise


@contextmanager
def writing_into(folder: Path, hint: str = "check its permissions") -> Iterator[None]:
    """Turn an ``OSError`` of the body into a ``StorageError`` that names ``folder``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageError(f"cannot write into {folder}: {reason}", hint) from error


def make_folder(path: Path) -> None:
    """Create a folder, for the owner only, and absent parents; all their names are durable.

    Raises:
        OSError: the folder cannot be created.
    """
    absent = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    for each in absent:
        sync_folder(each.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable: files that were created, renamed or removed.

    Raises:
        OSError: the folder cannot be opened, or the disk reports an error.
    """
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def open_private(path: str, flags: int) -> int:
    """Open a file with mode 600; usable as the ``opener`` of ``open``."""
    return os.open(path, flags, 0o600)
