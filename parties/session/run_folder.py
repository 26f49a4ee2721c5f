"""The folder of a run: apart from the data, writable, and held by one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parties.common.errors import StorageError

LOCK = ".lock"
_HINT = "choose another --out folder"


def check_apart(out: Path, data: Path | None) -> None:
    """Refuse an output folder that nobody can mean.

    Raises:
        StorageError: it climbs with ``..``, is a file, or lies where the data lies.
    """
    if ".." in out.parts:
        raise StorageError(f"{out} climbs with ..", f"write where it leads: --out {out.resolve()}")
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file", _HINT)
    if data is not None and out.resolve().is_relative_to(data.resolve()):
        raise StorageError(f"{out} lies inside the data folder {data}", _HINT)


@contextmanager
def alone(state: Path) -> Iterator[None]:
    """Hold a party's own folder against every other process; it is made where it is absent.

    Raises:
        StorageError: another process holds it, or it cannot be used.
    """
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(f"cannot use {state}: {error.strerror}", _HINT) from error
    try:
        _hold(lock, state)
        yield
    finally:
        os.close(lock)  # the file stays: to remove it would let two processes hold two files


def _hold(lock: int, state: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode(errors="replace").strip()
        raise StorageError(
            f"{state} is held by process {holder}", "one process a seat: wait for it, or end it"
        ) from error
    except OSError as error:
        raise StorageError(f"cannot lock {state}: {error.strerror}", _HINT) from error
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
