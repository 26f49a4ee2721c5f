"""Sources: a party's files as bytes, and their records before they are put together."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from configs.seat import CsvData, NumpyData, Part
from parties.errors import DataError

Array: TypeAlias = npt.NDArray[Any]
Index: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Images: TypeAlias = npt.NDArray[np.float32]

UNKNOWN, ABSENT = -1, -2  # labels that are none of the classes
MAX_BYTES = 2 << 30
SHOWN = 5
_FOREIGN = {b"\x1f\x8b": "gzip", b"PK\x03\x04": "zip or xlsx", b"\xd0\xcf\x11\xe0": "xls"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Records:
    """The records of one file, or of one bundled set, in the order of the file.

    Attributes:
        file: name for errors.
        unit: what ``numbers`` count, "line" (from 1) or "row" (from 0).
        numbers: place of each record in the file.
        ids: raw ID of each record, in parts.
        table: feature columns, NaN or None where a value is absent.
        images: [rows, 1, h, w].
        labels: class index of each record, or ``UNKNOWN`` or ``ABSENT``.
    """

    file: str
    unit: str
    numbers: Index
    ids: Sequence[tuple[str, ...]]
    table: pd.DataFrame | None = None
    images: Images | None = None
    labels: Index | None = None

    def place(self, record: int) -> str:
        """Where a record stands."""
        return f"{self.unit} {self.numbers[record]}"

    def places(self, records: Index) -> str:
        """How many records, and where the first stand."""
        return counted(self.file, self.unit, self.numbers[records])


def counted(file: str, unit: str, numbers: Index | Sequence[int]) -> str:
    """``2 lines of a.csv (4, 7)``; at most five numbers are shown."""
    shown = ", ".join(str(number) for number in numbers[:SHOWN])
    more = ", ..." if len(numbers) > SHOWN else ""
    return f"{len(numbers)} {unit}{'s' if len(numbers) > 1 else ''} of {file} ({shown}{more})"


def row_ids(prefix: str, numbers: Index) -> list[tuple[str, ...]]:
    """IDs for data without any: every party that reads the same file names its rows alike."""
    return [(f"{prefix}:{number}",) for number in numbers.tolist()]


def class_indices(texts: Sequence[str], classes: Sequence[str]) -> Index:
    """Labels as indices into ``classes``, compared as text."""
    known = {name: index for index, name in enumerate(classes)} | {"": ABSENT}
    return np.array([known.get(text, UNKNOWN) for text in texts], np.int64)


def paths(data: CsvData | NumpyData) -> list[Path]:
    """The file, and the test file where there is one.

    Raises:
        DataError: rows are named by file and both files have one name.
    """
    if data.test_path is None:
        return [data.path]
    if data.id == "row" and data.path.name == data.test_path.name:
        raise DataError(
            f"both files are called {data.path.name}, so rows of both would have the same IDs",
            "rename one of them, or name ID columns",
        )
    return [data.path, data.test_path]


def file_bytes(folder: Path, path: Path, origin: str) -> bytes:
    """The content of a regular file; a relative ``path`` begins in ``folder``.

    Raises:
        DataError: it is absent, no regular file, too large or unreadable.
    """
    full = (folder / path).absolute()
    try:
        status = full.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{full} is no regular file", "name a file, no folder, pipe or device")
        if status.st_size > MAX_BYTES:
            raise DataError(f"{full} has more than {MAX_BYTES >> 30} GiB", "split it into parts")
        return full.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        get = f"get it from {origin} and say" if origin else "say"
        raise DataError(
            f"no file {path}: looked for {full}", f"{get} where it lies with --data DIR"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {full}: {error.strerror}") from None


def foreign_format(content: bytes) -> str | None:
    """What ``content`` really is when it is packed or a workbook."""
    return next((name for magic, name in _FOREIGN.items() if content.startswith(magic)), None)


def cropped(images: Array, part: Part, scale: int, file: str) -> Images:
    """[rows, h, w] → this party's rectangle of each image, divided by ``scale``: [rows, 1, h, w].

    Raises:
        DataError: the rectangle does not lie in the images.
    """
    height, width = images.shape[1:]
    rows, columns = part.rows or (0, height), part.columns or (0, width)
    if rows[1] > height or columns[1] > width:
        raise DataError(
            f"part rows {list(rows)}, columns {list(columns)} is not inside the images of {file}",
            f"they have {height} rows and {width} columns",
        )
    rectangles = images[:, None, slice(*rows), slice(*columns)]
    return np.divide(rectangles, scale, dtype=np.float32)
