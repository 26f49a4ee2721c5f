"""Files that are old or new at every moment, also when the power fails."""

import os
from pathlib import Path

from parties.common.errors import StorageError


def write(path: Path, content: bytes) -> None:
    """Write a file that is either old or new at every moment, also when the power fails.

    Only this account may read it, since labels and row numbers may speak in it.

    Raises:
        StorageError: the file system refuses; the old file stays.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        with open(beside, "wb", opener=private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise StorageError(f"cannot write {path}: {error.strerror}", "is the disk full?") from error
    except BaseException:  # told to stop in the middle
        beside.unlink(missing_ok=True)
        raise


def private(path: str, flags: int) -> int:
    """Open a file that only this account may read."""
    return os.open(path, flags, 0o600)
