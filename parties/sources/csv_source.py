"""CSV source: the columns of text tables, each read for its use and no other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan
from pathlib import Path

import numpy as np
import pandas as pd

from configs.seat import CsvData
from parties.errors import DataError
from parties.sources.csv_text import Sheet, read_sheet
from parties.sources.records import Index, Records, class_indices, counted, paths, row_ids

MAX_PROBLEMS = 20
LARGEST = 1e100  # the squares of larger numbers overflow
_NUMBER, _TEXT = "a number", "text"


@dataclass(frozen=True, slots=True)
class Roles:
    """What each column is for; the others are not read."""

    ids: tuple[str, ...]
    label: str | None
    numeric: tuple[str, ...]
    categorical: tuple[str, ...]

    def listed(self) -> list[tuple[str, str]]:
        """Pairs of a use and a column."""
        label = () if self.label is None else (self.label,)
        uses = {"id": self.ids, "label": label, "numeric": self.numeric}
        uses["categorical"] = self.categorical
        return [(use, column) for use, columns in uses.items() for column in columns]


def read_csv(data: CsvData, folder: Path, classes: Sequence[str]) -> list[Records]:
    """The records of the file, and of the test file where there is one.

    Raises:
        DataError: the files cannot be used as the seat says.
    """
    sheets = [read_sheet(data, folder, path) for path in paths(data)]
    roles = _roles(data, sheets[0].columns)
    _refuse_two_uses(roles)
    for sheet in sheets:
        _refuse_unknown_columns(roles, sheet)
    return [_records(data, roles, sheet, classes) for sheet in sheets]


def _roles(data: CsvData, columns: Sequence[str]) -> Roles:
    ids = () if data.id == "row" else data.id.columns
    taken = {*ids, *data.categorical, data.label}
    rest = tuple(column for column in columns if column not in taken)
    return Roles(ids, data.label, rest if data.numeric is None else data.numeric, data.categorical)


def _refuse_two_uses(roles: Roles) -> None:
    uses = Counter(column for _, column in roles.listed())
    for column in (column for column, count in uses.items() if count > 1):
        raise DataError(
            f"column {column!r} has two uses",
            "list it once: as id, label, numeric or categorical",
        )


def _refuse_unknown_columns(roles: Roles, sheet: Sheet) -> None:
    unknown = [(use, column) for use, column in roles.listed() if column not in sheet.columns]
    if unknown:
        named = ", ".join(f"{column!r} ({use})" for use, column in unknown)
        raise DataError(f"{sheet.file} has no column {named}", _legal(sheet.columns))


def _legal(columns: Sequence[str]) -> str:
    """The columns, unless the first line seems to be somebody's record."""
    if any(_kind(column) != _TEXT for column in columns):
        return "its first line looks like a record; if so, name the columns with names = [...]"
    return f"its columns are {', '.join(columns)}"


def _records(data: CsvData, roles: Roles, sheet: Sheet, classes: Sequence[str]) -> Records:
    return Records(
        file=sheet.file,
        unit="line",
        numbers=sheet.lines,
        ids=_ids(roles, sheet),
        table=_table(data, roles, sheet),
        labels=None if roles.label is None else _labels(data, sheet.cells(roles.label), classes),
    )


def _ids(roles: Roles, sheet: Sheet) -> list[tuple[str, ...]]:
    if not roles.ids:
        return row_ids(sheet.file, sheet.lines)
    return list(zip(*(sheet.cells(column) for column in roles.ids), strict=True))


def _labels(data: CsvData, cells: Sequence[str], classes: Sequence[str]) -> Index:
    texts = ["" if cell in data.missing else cell.rstrip(data.label_strip) for cell in cells]
    return class_indices(texts, classes)


def _table(data: CsvData, roles: Roles, sheet: Sheet) -> pd.DataFrame | None:
    if not roles.numeric + roles.categorical:
        return None
    absent = {"", *data.missing}
    table = {column: _numbers(sheet.cells(column), absent) for column in roles.numeric}
    _refuse_no_numbers(sheet, table)
    for column in roles.categorical:
        texts = [None if cell in absent else cell for cell in sheet.cells(column)]
        table[column] = pd.Series(texts, dtype=object)
    return pd.DataFrame(table)


def _numbers(cells: Sequence[str], absent: set[str]) -> "pd.Series[float]":
    """NaN for an absent value, infinity for whatever is no usable number."""
    return pd.Series([nan if cell in absent else _number(cell) for cell in cells], dtype=float)


def _number(cell: str) -> float:
    return float(cell) if _kind(cell) == _NUMBER else inf


def _kind(cell: str) -> str:
    try:
        # float() also takes "1_000" and the digits of every script
        value = float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        value = None
    if value is None:
        return _TEXT
    if not isfinite(value):
        return "NaN or infinity"
    return _NUMBER if abs(value) <= LARGEST else f"a number beyond {LARGEST:g}"


def _refuse_no_numbers(sheet: Sheet, table: "dict[str, pd.Series[float]]") -> None:
    problems = []
    for column, values in table.items():
        rows = np.flatnonzero(np.isinf(values.to_numpy()))
        if len(rows):
            cells = sheet.cells(column)
            kinds = " and ".join(sorted({_kind(cells[row]) for row in rows.tolist()}))
            where = counted(sheet.file, "line", sheet.lines[rows])
            problems.append(f"{kinds} in numeric column {column!r}: {where}")
    if problems:
        raise DataError(
            "\n".join(problems[:MAX_PROBLEMS]),
            "list a column of text under categorical, and a mark of absent values under missing",
        )
