"""Open a party's data files: regular files that must not change while they are read."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from parties.common.errors import DataError, IntegrityError

MAX_BYTES = 2 << 30  # largest size of a file that is read at once
MAX_RATIO = 200  # largest ratio of unpacked to packed bytes
_SMALL = 64 << 20  # unpacked bytes up to which any ratio is allowed
_FOREIGN = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip or xlsx", b"\xd0\xcf\x11\xe0": "xls"}


@contextmanager
def open_data_file(folder: Path, path: Path, origin: str) -> Iterator[BinaryIO]:
    """Open a regular file in the data folder for reading.

    Raises:
        DataError: the file is absent, outside ``folder``, not regular, or unreadable.
        IntegrityError: the file changed while the body of the ``with`` statement read it.
    """
    full = regular_file_path(folder, path, origin)
    try:
        with full.open("rb") as file:
            before = _identity(os.fstat(file.fileno()))
            try:
                yield file
            except DataError:
                _refuse_changed(full, before)  # a change may be the cause of the error
                raise
            _refuse_changed(full, before)
    except OSError as error:
        raise DataError(f"cannot read {full}: {error.strerror}") from None


def regular_file_path(folder: Path, path: Path, origin: str) -> Path:
    """Return the full path of a regular file; a relative ``path`` must stay inside ``folder``.

    Raises:
        DataError: the file is absent, outside ``folder``, or not a regular file.
    """
    full = (folder / path).absolute()
    try:
        _refuse_elsewhere(folder, path)
        if not stat.S_ISREG(full.stat().st_mode):  # before it is opened: opening a pipe would block
            raise DataError(
                f"{full} is not a regular file", "name a file, not a folder, pipe or device"
            )
        return full
    except (FileNotFoundError, NotADirectoryError):
        get = f"download the file from {origin}, and pass" if origin else "pass"
        raise DataError(
            f"there is no file {path}: vfl looked for {full}",
            f"{get} the data folder with --data DIR",
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {full}: {error.strerror}") from None


def read_file_bytes(folder: Path, path: Path, origin: str) -> bytes:
    """Return the content of a file of at most ``MAX_BYTES``.

    Raises:
        DataError: the file is too large, absent, outside ``folder``, not regular, or unreadable.
        IntegrityError: the file changed while it was read.
    """
    with open_data_file(folder, path, origin) as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise DataError(
                f"{folder / path} has more than {MAX_BYTES >> 30} GiB",
                "use data of kind csv, parquet or sql, which is read in chunks",
            )
        return file.read()


def refuse_large_unpacked_size(file: str, packed: int, unpacked: int) -> None:
    """Check the unpacked size of a packed file. Raises ``DataError`` if this size is too large."""
    if unpacked > MAX_BYTES or unpacked > max(_SMALL, MAX_RATIO * packed):
        raise DataError(
            f"{file} is too large: it has {packed} bytes and unpacks to {unpacked} bytes",
            f"the limits are {MAX_BYTES >> 30} GiB and {MAX_RATIO} times the packed size",
        )


def foreign_format(content: bytes) -> str | None:
    """Return the format of ``content`` if it is a packed file or a workbook; otherwise None."""
    return next((name for magic, name in _FOREIGN.items() if content.startswith(magic)), None)


def _refuse_elsewhere(folder: Path, path: Path) -> None:
    """Check that a relative path does not lead out of ``folder`` by links or dots."""
    if not path.is_absolute() and not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"the path {path} is outside the data folder {folder.absolute()}",
            "name a file inside the data folder, or write the absolute path of the file",
        )


def _refuse_changed(full: Path, before: tuple[int, int, int, int]) -> None:
    if not full.exists() or _identity(full.stat()) != before:
        raise IntegrityError(
            f"{full} changed while it was read", "start again when no process writes to the file"
        )


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
