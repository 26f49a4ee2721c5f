"""Folder of a run: outside the data folder, and locked by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parties.common.atomic_file import make_folder
from parties.common.errors import StorageError

LOCK = ".lock"
_HINT = "choose another --out folder"


def check_run_folder(out: Path, data: Path | None) -> None:
    """Check the folder of the runs.

    Raises:
        StorageError: the path contains ``..``, is a file, or lies inside the data folder.
    """
    if ".." in out.parts:
        raise StorageError(
            f"the path {out} contains '..'", f"give the path without '..': --out {out.resolve()}"
        )
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file, expected a folder", _HINT)
    if data is not None and out.resolve().is_relative_to(data.resolve()):
        raise StorageError(f"{out} lies inside the data folder {data}", _HINT)


@contextmanager
def lock_run_folder(state: Path) -> Iterator[None]:
    """Lock a party's own folder in a ``with`` block; create the folder if it is absent.

    Raises:
        StorageError: another process holds the lock, or the folder cannot be used.
    """
    try:
        make_folder(state)
        lock = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"cannot use the folder {state}: {error.strerror}", _HINT) from error
    try:
        _acquire(lock, state)
        yield
    finally:
        os.close(lock)  # the file stays: if removed, two processes could lock two files


def _acquire(lock: int, state: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode(errors="replace").strip()
        raise StorageError(
            f"{state} is in use by process {holder}",
            "run one process per party: wait for that process, or end it",
        ) from error
    except OSError as error:
        raise StorageError(f"cannot lock {state}: {error.strerror}", _HINT) from error
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
