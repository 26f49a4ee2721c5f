"""Records of a data source: IDs, features and labels of all files, with file and line number."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from parties.common.errors import DataError
from parties.data.sources.arrays import Array, Images, Index, Labels, Mask
from parties.data.sources.table import Table
from psi.errors import PsiError
from psi.ids import join_columns, normalise

UNKNOWN, ABSENT = -1, -2  # marks of labels without a class
MAX_SHOWN = 5  # places in an error message


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Records:
    """The records of all files of a party, in the order of the files.

    Attributes:
        files: for each file, the name in error messages and the number of records.
        unit: what ``numbers`` count: "line" (from 1), "row" (from 0) or "image" (from 0).
        numbers: line, row or image number of each record in its file, ``[rows]``.
        ids: normalised ID of each record.
        table: feature columns.
        images: ``[rows, channels, h, w]``.
        labels: class index of each record, or ``UNKNOWN`` or ``ABSENT``, ``[rows]``; or numbers,
            NaN if absent, ``[rows]``, or ``[rows, labels]`` of several labels.
        times: date of each record, as a number that grows with time, ``[rows]``; None without.
        weights: weight of each record, NaN if absent, ``[rows]``; None without.
        digest: SHA-256 of all data that was read.
        trains: number of files with training rows; these files are the first ones in ``files``, and
            all later files have test rows.
    """

    files: tuple[tuple[str, int], ...]
    unit: str
    numbers: Index
    ids: Sequence[bytes]
    table: Table | None = None
    images: Images | None = None
    labels: Labels | None = None
    times: Array | None = None
    weights: Array | None = None
    digest: bytes = b""
    trains: int = 1

    def place(self, record: int) -> str:
        """Return the file name and number of a record, such as ``a.csv line 4``."""
        return f"{self._file(record)} {self.unit} {self.numbers[record]}"

    def places(self, records: Index) -> str:
        """Describe the places of those ``records``, ``[n]``, that are in the first one's file."""
        file = self._file(int(records[0]))
        same_file = [record for record in records.tolist() if self._file(record) == file]
        return describe_rows(file, self.unit, self.numbers[same_file])

    def in_test(self) -> Mask:
        """Return a mask ``[rows]``: True for records of a test file."""
        counts = [count for _, count in self.files]
        return np.repeat([at >= self.trains for at in range(len(counts))], counts)

    def _file(self, record: int) -> str:
        ends = np.cumsum([count for _, count in self.files])
        return self.files[int(np.searchsorted(ends, record, side="right"))][0]


def describe_rows(
    file: str, unit: str, numbers: Index | Sequence[int], count: int | None = None
) -> str:
    """Return a text such as ``2 lines of a.csv (4, 7)``.

    The text states ``count``, the number of all such rows, and at most five of ``numbers``,
    ``[n]``.
    """
    count = len(numbers) if count is None else count
    shown = ", ".join(str(number) for number in numbers[:MAX_SHOWN])
    more = ", ..." if count > MAX_SHOWN else ""
    return f"{count} {unit}{'s' if count > 1 else ''} of {file} ({shown}{more})"


def row_ids(prefix: str, numbers: Index) -> list[bytes]:
    """Return an ID per row, such as ``train:17``, from file name and ``numbers``, ``[rows]``.

    All parties that read the same file get the same IDs.
    """
    return [normalise(f"{prefix}:{number}") for number in numbers.tolist()]


def normalise_ids(columns: Sequence[list[str]]) -> tuple[list[bytes], list[int]]:
    """Join columns of text to IDs; return the IDs and the indices of the records without an ID."""
    parts = []
    empty: set[int] = set()
    for column in columns:
        if "".join(column).isascii():  # NFKC does not change ASCII
            cells = [cell.strip().encode() for cell in column]
        else:
            cells = list(map(_normal, column))
        if b"" in cells:
            empty |= {record for record, cell in enumerate(cells) if not cell}
        parts.append(cells)
    if len(parts) == 1:
        return parts[0], sorted(empty)
    return [join_columns(cells) for cells in zip(*parts, strict=True)], sorted(empty)


def class_indices(texts: Sequence[str], classes: Sequence[str]) -> Index:
    """Return labels as indices into ``classes``, ``[rows]``; texts are compared exactly."""
    known = {name: index for index, name in enumerate(classes)} | {"": ABSENT}
    return np.array([known.get(text, UNKNOWN) for text in texts], np.int64)


def check_class_indices(labels: Array, classes: int) -> Index:
    """Return the class index of each of ``labels``, ``[rows]``; ``UNKNOWN`` if out of range."""
    indices = labels.astype(np.int64)
    return np.where((indices >= 0) & (indices < classes), indices, UNKNOWN)


def join_records(parts: Sequence[Records], trains: int = 1) -> Records:
    """Return the records of several files as one; the first ``trains`` files have training rows.

    Raises:
        DataError: the number of features or the size of images differs between the files.
    """
    images = [part.images for part in parts if part.images is not None]
    if len({part.shape[1:] for part in images}) > 1:
        raise DataError("the images of the training file and of the test file differ in size")
    tables = [part.table for part in parts if part.table is not None]
    if len({table.numeric for table in tables}) > 1:
        raise DataError("the training file and the test file have different numbers of features")
    labels: list[Array] = [part.labels for part in parts if part.labels is not None]
    records = Records(
        files=tuple(file for part in parts for file in part.files),
        unit=parts[0].unit,
        numbers=np.concatenate([part.numbers for part in parts]),
        ids=[identity for part in parts for identity in part.ids],
        table=tables[0].append_rows(tables[1:]) if tables else None,
        images=np.concatenate(images) if images else None,
        labels=np.concatenate(labels) if labels else None,
        trains=trains,
    )
    return replace(records, digest=_digest(records))


def _normal(text: str) -> bytes:
    try:
        return normalise(text)
    except PsiError:
        return b""


def _digest(records: Records) -> bytes:
    state = sha256(join_columns(list(records.ids)))
    table = () if records.table is None else (records.table.numbers, records.table.codes)
    for array in (*table, records.images, records.labels):
        if array is not None:
            state.update(f"{array.dtype}{array.shape}".encode())
            state.update(np.ascontiguousarray(array).data)
    return state.digest()
