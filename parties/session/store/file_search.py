"""Search of a party's folder for data of persons: IDs as bytes, and rows of numbers.

The search reads every file as it is, also those that vfl did not write. Files of tensors are also
searched for rows of numbers that are nearly equal, because an embedding that was computed in
another batch differs in its last bits.
"""

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

TOLERANCE: Final = 1e-5  # of the largest value of a row
LEAST_VALUES: Final = 3  # different values of a row, below which equal rows are no evidence
LONG_ID: Final = 8  # bytes from which an ID is found inside of words, too
_SHORT_ID: Final = 5  # bytes below which, as for a number, an ID is found only as a cell
_DIGEST: Final = 32  # bytes before the tensors of some files
_COMPRESSED: Final = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
}
_WORD: Final = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.-+")
_CELL: Final = frozenset(b",;\t\r\n\"'")


class Trace(StrEnum):
    """What the search found of a person."""

    ID = "ID"
    FEATURES = "feature values"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True, repr=False)
class Searched:
    """What is searched for; ``repr`` shows nothing of it.

    Attributes:
        ids: the IDs in normal form.
        rows: arrays of the rows to find, ``[rows, ...]``, by what they are.
    """

    ids: Sequence[bytes]
    rows: Mapping[Trace, Sequence[Tensor]]


@dataclass(frozen=True, slots=True)
class FileReport:
    """What the search found in one file.

    Attributes:
        path: the file.
        found: number of persons by what was found of them; empty if nothing was found.
        unread: why the file, or a part of it, cannot be searched; empty if all of it was searched.
    """

    path: Path
    found: Mapping[Trace, int]
    unread: str = ""


def search_folder(folder: Path, searched: Searched, skip: Iterable[Path] = ()) -> list[FileReport]:
    """Search all files below ``folder``, but those in ``skip``; return a report for each file."""
    left_out = set(skip)
    return [
        _search_file(path, searched)
        for path in sorted(folder.rglob("*"))
        if path not in left_out and not (path.is_dir() and not path.is_symlink())
    ]


def search_tensors(tensors: Iterable[Tensor], searched: Searched) -> dict[Trace, set[int]]:
    """Return which rows of ``searched`` are in tensors of any shape, by what they are."""
    found: dict[Trace, set[int]] = {}
    for tensor in tensors:
        if tensor.dim() < 2 or not tensor.is_floating_point():
            continue
        table = tensor.flatten(start_dim=1).double()
        for kind, arrays in searched.rows.items():
            for wanted in arrays:
                known = wanted.flatten(start_dim=1).double()
                if known.shape[1] == table.shape[1]:
                    found.setdefault(kind, set()).update(_nearly_equal(known, table))
    return _non_empty(found)


def search_bytes(content: bytes, searched: Searched) -> dict[Trace, set[int]]:
    """Return which IDs and rows of ``searched`` are in ``content``, by what they are."""
    found: dict[Trace, set[int]] = {Trace.ID: set()}
    for number, identity in enumerate(searched.ids):
        if any(_has(content, form, _boundary(form)) for form in _forms(identity)):
            found[Trace.ID].add(number)
    for kind, arrays in searched.rows.items():
        for wanted in arrays:
            for number, forms in enumerate(_row_bytes(wanted)):
                if any(each in content for each in forms):
                    found.setdefault(kind, set()).add(number)
    return _non_empty(found)


def merge_found(parts: Iterable[Mapping[Trace, set[int]]]) -> dict[Trace, set[int]]:
    """Return the union of several results."""
    whole: dict[Trace, set[int]] = {}
    for part in parts:
        for kind, numbers in part.items():
            whole.setdefault(kind, set()).update(numbers)
    return whole


def counted(found: Mapping[Trace, set[int]]) -> dict[Trace, int]:
    """Return the number of persons by what was found."""
    return {kind: len(numbers) for kind, numbers in sorted(found.items()) if numbers}


def evident(rows: Tensor, others: Tensor) -> Tensor:
    """Return the rows, ``[rows, ...]``, by which a person can be recognised.

    A row with fewer than three different values, or that equals one of ``others``, is left out:
    finding it proves nothing.
    """
    table, rest = rows.flatten(start_dim=1).double(), others.flatten(start_dim=1).double()
    shared = _nearly_equal(table, rest) if len(rest) else set()
    kept = [
        number
        for number, row in enumerate(table)
        if number not in shared and len(row.unique()) >= LEAST_VALUES
    ]
    return rows[kept]


def _search_file(path: Path, searched: Searched) -> FileReport:
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            return FileReport(path, {}, "it is no plain file")
        content = path.read_bytes()
    except OSError as error:
        return FileReport(path, {}, f"it cannot be read: {error.strerror}")
    found = [search_bytes(content, searched), search_bytes(path.name.encode(), searched)]
    found.append(search_tensors(_tensors(content), searched))
    packed = next((kind for sign, kind in _COMPRESSED.items() if content.startswith(sign)), "")
    why = f"it is compressed ({packed}), and was searched only as it is" if packed else ""
    return FileReport(path, counted(merge_found(found)), why)


def _tensors(content: bytes) -> Iterator[Tensor]:
    """The tensors of a file of tensors, also behind a digest; none for other files."""
    for start in (0, _DIGEST):
        try:
            yield from load(content[start:]).values()
        except (SafetensorError, ValueError, KeyError):
            continue


def _nearly_equal(wanted: Tensor, table: Tensor) -> set[int]:
    """Numbers of the rows of ``wanted``, [rows, width], that ``table``, [any, width], has."""
    return {
        number
        for number, row in enumerate(wanted)
        if bool(((table - row).abs().amax(1) <= TOLERANCE * row.abs().max()).any())
    }


def _row_bytes(rows: Tensor) -> Iterator[tuple[bytes, ...]]:
    """Each row as the bytes of 32 and of 64 bit numbers."""
    for row in rows.flatten(start_dim=1).double().numpy():
        yield row.tobytes(), row.astype(np.float32).tobytes()


def _forms(identity: bytes) -> tuple[bytes, ...]:
    """An ID as it is, in hexadecimal, and its SHA-256 digest."""
    digest = sha256(identity)
    forms = (identity, digest.digest(), digest.hexdigest().encode())
    return (*forms, identity.hex().encode()) if len(identity) * 2 >= LONG_ID else forms


def _boundary(form: bytes) -> frozenset[int] | None:
    """The bytes that must not (``_WORD``) or must (``_CELL``) be beside an ID; None: any byte."""
    if len(form) >= LONG_ID:
        return None
    return _CELL if form.isdigit() or len(form) < _SHORT_ID else _WORD


def _has(content: bytes, form: bytes, boundary: frozenset[int] | None) -> bool:
    """Whether ``content`` has an ID with allowed bytes beside it."""
    at = content.find(form)
    while at >= 0:
        if boundary is None:
            return True
        end = at + len(form)
        beside = {content[at - 1] if at else None, content[end] if end < len(content) else None}
        known = {each for each in beside if each is not None}
        if known <= boundary if boundary is _CELL else not known & boundary:
            return True
        at = content.find(form, at + 1)
    return False


def _non_empty(found: Mapping[Trace, set[int]]) -> dict[Trace, set[int]]:
    return {kind: numbers for kind, numbers in found.items() if numbers}
