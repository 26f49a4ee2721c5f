"""Parquet source: columns of suitable types, read in chunks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from configs.table import PathText
from parties.common.errors import DataError, ResourceError
from parties.data.sources.arrays import Array
from parties.data.sources.cells import NOT_FINITE, number_marks, parse_numbers
from parties.data.sources.collect import Chunk, ColumnRoles, TableSettings, collect_records
from parties.data.sources.files import MAX_BYTES, open_data_file
from parties.data.sources.records import Records
from parties.data.sources.source import ReadOptions, data_paths

_TYPES = (
    "numeric columns are numbers or booleans; IDs, labels and categorical columns are text, whole "
    "numbers, booleans or dates; leave other columns out, or convert them"
)
_CELLS = 1 << 20  # cells of one chunk
_PAGES = 1 << 20  # bytes of the read buffer
_Test = Callable[[Any], bool]

_DAMAGED = "the file is truncated, damaged or of another format; write the file again"
_TEXT: tuple[_Test, ...] = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_EXACT: tuple[_Test, ...] = (*_TEXT, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
_NUMBERS: tuple[_Test, ...] = (
    *_TEXT,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_null,
)


class ParquetData(TableSettings):
    """Parquet files; integers, decimals and dates in ID columns are converted to exact text."""

    kind: Literal["parquet"]
    path: PathText
    test_path: PathText | None = None

    def read(self, options: ReadOptions) -> Records:
        """Read the records of the file, and of the test file if there is one.

        Raises:
            DataError: the files do not match the party settings.
            ResourceError: the files exceed a limit in the party settings.
            IntegrityError: a file changed while it was read.
            StorageError: the temporary folder has no space for large columns.
        """
        paths = data_paths(self.path, self.test_path, self.id)
        sheets = (_open_parquet(self, options.folder, path) for path in paths)
        return collect_records(self, sheets, options)


@contextmanager
def _open_parquet(data: ParquetData, folder: Path, path: Path) -> Iterator["_ParquetSheet"]:
    """Open one Parquet file in a ``with`` block.

    Raises:
        DataError: the file cannot be read, or is not a Parquet file.
    """
    with open_data_file(folder, path, data.origin) as file:
        try:
            yield _ParquetSheet(data, path.name, file)
        except (pa.ArrowException, OSError):
            raise DataError(f"{path.name} is not a Parquet file", _DAMAGED) from None
        except UnicodeDecodeError:
            raise DataError(f"{path.name} contains text that is not UTF-8", _DAMAGED) from None


class _ParquetSheet:
    """An open Parquet file; its rows are counted from 0."""

    unit = "row"

    def __init__(self, data: ParquetData, name: str, file: BinaryIO) -> None:
        self.file, self._missing = name, frozenset({"", *data.missing})
        self._marks = number_marks(self._missing)
        self._file = pq.ParquetFile(file, buffer_size=_PAGES, pre_buffer=False)
        self.columns = tuple(self._file.schema_arrow.names)

    def chunks(self, roles: ColumnRoles) -> Iterator[Chunk]:
        """Return the rows in chunks.

        Raises:
            DataError: a column has an unsuitable type.
            ResourceError: a row group is too large.
        """
        used = roles.listed()
        self._refuse_types(used)
        self._refuse_large_groups({column for _, column in used})
        start = 0
        pieces = self._file.iter_batches(
            max(1, _CELLS // max(1, len(used))), columns=[column for _, column in used]
        )
        for piece in pieces:
            numeric = [self._numeric(piece[column]) for column in roles.numeric]
            yield Chunk(
                numbers=np.arange(start, start + len(piece)),
                texts={column: _texts(piece[column]) for use, column in used if use != "numeric"},
                numeric=np.stack(numeric, axis=1) if numeric else np.empty((len(piece), 0)),
            )
            start += len(piece)

    def _numeric(self, column: Any) -> Array:
        """Return the cells of a column as numbers, ``[rows]`` in float64; NaN for an absent one."""
        column = _unpacked(column)
        if any(test(column.type) for test in _TEXT):
            return parse_numbers(list(map(str.strip, _texts(column))), self._missing)
        values = _numbers(column, nan_is_absent="nan" in {mark.lower() for mark in self._missing})
        values[np.isin(values, _rounded(self._marks, column.type))] = np.nan
        return values

    def _refuse_types(self, used: Sequence[tuple[str, str]]) -> None:
        problems = []
        for use, column in used:
            kind = _plain(self._file.schema_arrow.field(column).type)
            whole = pa.types.is_decimal(kind) and kind.scale == 0
            legal = _NUMBERS if use == "numeric" else _EXACT
            legal = (
                (*legal, pa.types.is_floating, pa.types.is_timestamp) if use == "time" else legal
            )
            if not any(test(kind) for test in legal) and not (use != "numeric" and whole):
                problems.append(f"column {column!r} ({use}) of {self.file} is {kind}")
        if problems:
            raise DataError("\n".join(problems[:20]), _TYPES)

    def _refuse_large_groups(self, used: set[str]) -> None:
        """Check the declared sizes of row groups, because a group is unpacked at once."""
        meta = self._file.metadata
        for number in range(meta.num_row_groups):
            group = meta.row_group(number)
            columns = (group.column(at) for at in range(group.num_columns))
            size = sum(
                column.total_uncompressed_size
                for column in columns
                if column.path_in_schema in used
            )
            if size > MAX_BYTES:
                raise ResourceError(
                    f"{self.file}: row group {number} unpacks to {size} bytes, which is too large",
                    "write the file with smaller row groups, of at most 2 GiB each",
                )


def _plain(kind: Any) -> Any:
    """Return the type of the values, also for a dictionary-encoded column."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _unpacked(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _texts(column: Any) -> list[str]:
    """Return the exact text of every cell, "" for null; integers are not converted to float."""
    column = _unpacked(column)
    text = column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
    return pc.fill_null(text, "").to_pylist()  # type: ignore[no-any-return]


def _numbers(column: Any, *, nan_is_absent: bool) -> Array:
    """Return the cells of a column of numbers, ``[rows]`` in float64; NaN for an absent one."""
    if pa.types.is_decimal(column.type):  # float() rounds to the nearest float; a cast may not
        cells = [np.nan if cell is None else float(cell) for cell in column.to_pylist()]
        return np.array(cells, np.float64)
    values = pc.cast(column, pa.float64(), safe=False)
    void = np.asarray(values.is_null())
    filled = np.array(pc.fill_null(values, 0.0), np.float64)
    filled[~np.isfinite(filled) & ~(np.isnan(filled) & nan_is_absent)] = NOT_FINITE
    filled[void] = np.nan
    return filled


def _rounded(marks: Array, kind: Any) -> Array:
    """Return finite numbers, ``[marks]``, as a column of the type ``kind`` stores them."""
    if not pa.types.is_floating(kind):
        return marks
    with np.errstate(over="ignore"):
        stored = marks.astype(kind.to_pandas_dtype()).astype(np.float64)
    return stored[np.isfinite(stored)]
