"""Atomic file write: after a crash the file has either its old or its new content."""

import os
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
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(
            f"cannot write {path}: {error.strerror}", "check that the disk is not full"
        ) from error
    except BaseException:  # SIGTERM or Ctrl-C while the file was being written
        beside.unlink(missing_ok=True)
        raise


def open_private(path: str, flags: int) -> int:
    """Open a file with mode 600; usable as the ``opener`` of ``open``."""
    return os.open(path, flags, 0o600)
