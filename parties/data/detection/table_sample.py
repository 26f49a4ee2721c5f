"""Sample of a table: the texts of all columns in the first rows of a file or a database table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from parties.common.errors import DataError
from parties.data.detection.csv_form import CsvForm
from parties.data.sources.collect import ColumnRoles
from parties.data.sources.csv_source import CsvData, open_csv
from parties.data.sources.sql_source import SqlData, read_first_rows

SAMPLE_CELLS: Final = 1 << 23  # cells that are read to detect the columns
_KNOWN: Final = {str, int, bool, float, Decimal, date, datetime, UUID}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TableSample:
    """The first rows of a table as text; ``repr`` shows no cell.

    Attributes:
        file: name of the file or table in messages.
        rows: number of all rows of the table.
        columns: for each column the stripped texts of the sampled rows; "" for an absent value.
        dates: columns whose type in the file or database is a date or a time.
        inexact: columns with binary fractions, which are neither IDs nor labels.
        other: columns of a type that no source reads, such as lists or bytes.
    """

    file: str
    rows: int
    columns: dict[str, list[str]]
    dates: frozenset[str] = field(default=frozenset())
    inexact: frozenset[str] = field(default=frozenset())
    other: frozenset[str] = field(default=frozenset())

    @property
    def sampled(self) -> int:
        """Number of rows in the sample."""
        return len(next(iter(self.columns.values()), []))


def sample_csv(path: Path, form: CsvForm, cells: int = SAMPLE_CELLS) -> TableSample:
    """Return the first rows of a CSV file, at least one block of lines.

    Raises:
        DataError: the file cannot be read as a CSV file of this form.
        ResourceError: a line is too long.
        IntegrityError: the file changed while it was read.
    """
    data = CsvData(
        kind="csv",
        path=Path(path.name),
        delimiter=form.delimiter,
        encoding=form.encoding,
        decimal=form.decimal,
    )
    with open_csv(data, path.parent, data.path) as sheet:
        names = sheet.columns
        _refuse_names(path.name, names)
        columns: dict[str, list[str]] = {name: [] for name in names}
        rows = sampled = 0
        for chunk in sheet.chunks(ColumnRoles(names, None, (), ())):
            if chunk.ragged:
                raise DataError(
                    f"{path.name}: line {chunk.ragged[0]} has another number of fields than the "
                    f"header, which has {len(names)}",
                    "quote a field that contains the delimiter, or correct the line",
                )
            rows += len(chunk.numbers)
            if sampled * len(names) < cells:
                sampled += len(chunk.numbers)
                for name in names:
                    columns[name] += map(str.strip, chunk.texts[name])
    return _checked(TableSample(file=path.name, rows=rows, columns=columns))


def sample_parquet(path: Path, cells: int = SAMPLE_CELLS) -> TableSample:
    """Return the first rows of a Parquet file; numbers are in Python's notation.

    Raises:
        DataError: the file is not a Parquet file.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
            _refuse_names(path.name, schema.names)
            kinds = {name: schema.field(name).type for name in schema.names}
            nested = {name for name, kind in kinds.items() if pa.types.is_nested(kind)}
            names = [name for name in schema.names if name not in nested]
            if not names:
                raise DataError(
                    f"{path.name} has no column with one value per row",
                    "write columns of numbers or texts, not lists or structures",
                )
            wanted = max(1, min(rows, cells // max(1, len(names))))
            batches = file.iter_batches(min(wanted, 1 << 16), columns=names)
            values: dict[str, list[Any]] = {name: [] for name in names}
            for batch in batches:
                for name in names:
                    values[name] += _cells(batch[name])
                if len(values[names[0]]) >= wanted:
                    break
    except (pa.ArrowException, OSError):
        raise DataError(f"{path.name} is not a Parquet file", "write the file again") from None
    return _checked(_typed(path.name, rows, values, nested))


def _cells(column: Any) -> list[Any]:
    """Return the values of a Parquet column; timestamps in nanoseconds become datetimes, too."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return column.to_pylist()  # type: ignore[no-any-return]


def sample_sql(data: SqlData, folder: Path, cells: int = SAMPLE_CELLS) -> TableSample:
    """Return the first rows of a database table; numbers are in Python's notation.

    Raises:
        DataError: the database cannot be reached, or has no such table.
    """
    names, records, rows = read_first_rows(data, folder, cells)
    columns = zip(*records, strict=True) if records else ([] for _ in names)
    values = {name: list(cells) for name, cells in zip(names, columns, strict=True)}
    return _checked(_typed(f"table {data.table}", rows, values, set()))


def _typed(file: str, rows: int, values: dict[str, list[Any]], other: set[str]) -> TableSample:
    """Return the sample of a table with typed values."""
    kinds = {name: {type(cell) for cell in cells} - {type(None)} for name, cells in values.items()}
    dates = {name for name, found in kinds.items() if found and found <= {date, datetime}}
    inexact = {name for name, found in kinds.items() if float in found or Decimal in found}
    other = other | {name for name, found in kinds.items() if not found <= _KNOWN}
    return TableSample(
        file=file,
        rows=rows,
        columns={
            name: [_text(cell) for cell in cells]
            for name, cells in values.items()
            if name not in other
        },
        dates=frozenset(dates),
        inexact=frozenset(inexact),
        other=frozenset(other),
    )


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(cell).strip()


def _checked(sample: TableSample) -> TableSample:
    if not sample.rows or not sample.columns:
        raise DataError(f"{sample.file} has no rows", "add rows below the header")
    return sample


def _refuse_names(file: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if not name or name in names[:at]:
            fault = "the name of an earlier column" if name else "no name"
            raise DataError(
                f"{file} has an invalid column name: column {at + 1} has {fault}",
                "give each column a unique name in the header",
            )
