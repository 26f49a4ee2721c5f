"""Files of a party: regular ones inside its data folder, and the same from first byte to last."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from parties.common.errors import DataError, IntegrityError

MAX_BYTES = 2 << 30  # of a file that is read whole
MAX_RATIO = 200  # of unpacked to packed bytes
_SMALL = 64 << 20  # bytes that may be unpacked at any ratio
_FOREIGN = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip or xlsx", b"\xd0\xcf\x11\xe0": "xls"}


@contextmanager
def open_data_file(folder: Path, path: Path, origin: str) -> Iterator[BinaryIO]:
    """A file to read, as ``regular_file_path`` finds it.

    Raises:
        DataError: it is absent, elsewhere, no regular file or unreadable.
        IntegrityError: it changed while the body read it.
    """
    full = regular_file_path(folder, path, origin)
    try:
        with full.open("rb") as file:
            before = _identity(os.fstat(file.fileno()))
            try:
                yield file
            except DataError:
                _refuse_changed(full, before)  # which then explains it
                raise
            _refuse_changed(full, before)
    except OSError as error:
        raise DataError(f"cannot read {full}: {error.strerror}") from None


def regular_file_path(folder: Path, path: Path, origin: str) -> Path:
    """The full path of a regular file; a relative ``path`` begins in ``folder`` and stays there.

    Raises:
        DataError: it is absent, elsewhere or something else.
    """
    full = (folder / path).absolute()
    try:
        _refuse_elsewhere(folder, path)
        if not stat.S_ISREG(full.stat().st_mode):  # before it is opened: a pipe would wait
            raise DataError(f"{full} is no regular file", "name a file, no folder, pipe or device")
        return full
    except (FileNotFoundError, NotADirectoryError):
        get = f"get it from {origin} and say" if origin else "say"
        raise DataError(
            f"no file {path}: looked for {full}", f"{get} where it lies with --data DIR"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {full}: {error.strerror}") from None


def read_file_bytes(folder: Path, path: Path, origin: str) -> bytes:
    """The content of a file that is not too large to be read whole; raises like ``open_data_file``."""
    with open_data_file(folder, path, origin) as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise DataError(
                f"{folder / path} has more than {MAX_BYTES >> 30} GiB",
                "csv, parquet and sql are read piece by piece",
            )
        return file.read()


def refuse_large_unpacked_size(file: str, packed: int, unpacked: int) -> None:
    """Refuse content that unpacks to much more bytes than it has."""
    if unpacked > MAX_BYTES or unpacked > max(_SMALL, MAX_RATIO * packed):
        raise DataError(
            f"{file} has {packed} bytes and unpacks to {unpacked}",
            f"at most {MAX_BYTES >> 30} GiB and {MAX_RATIO} times its size are unpacked",
        )


def foreign_format(content: bytes) -> str | None:
    """What ``content`` really is when it is packed or a workbook."""
    return next((name for magic, name in _FOREIGN.items() if content.startswith(magic)), None)


def _refuse_elsewhere(folder: Path, path: Path) -> None:
    """An absolute path says what it means; a relative one must not lead out by links or dots."""
    if not path.is_absolute() and not (folder / path).resolve().is_relative_to(folder.resolve()):
        raise DataError(
            f"{path} leads out of the data folder {folder.absolute()}",
            "name a file inside it, or write the absolute path of the file itself",
        )


def _refuse_changed(full: Path, before: tuple[int, int, int, int]) -> None:
    if not full.exists() or _identity(full.stat()) != before:
        raise IntegrityError(
            f"{full} changed while it was read", "start again when nobody writes to it"
        )


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
