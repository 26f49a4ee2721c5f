"""Collect tables: check the chunks of a file or query, and store them as compact columns.

A table source only splits its input into cells. This module interprets and checks the cells in the
same way for all table sources.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, ClassVar, Literal, Protocol

import numpy as np
from pydantic import Field

from configs.table import Count
from configs.targets import Task
from parties.common.errors import DataError, ResourceError
from parties.data.sources.arrays import Array, Index, Labels, Progress
from parties.data.sources.cells import LARGEST, describe_fault, is_number, is_text, parse_row_time
from parties.data.sources.records import (
    ABSENT,
    MAX_SHOWN,
    UNKNOWN,
    Records,
    describe_rows,
    normalise_ids,
    row_ids,
)
from parties.data.sources.source import DataSettings, ReadOptions
from parties.data.sources.store import MEMORY, ArrayStore, IdStore
from parties.data.sources.table import Table

MAX_PROBLEMS = 20  # in one error message
MAX_TEXTS = 1 << 20  # distinct texts in a categorical column
TEXT_HINT = "list columns of text under categorical, and texts for absent values under missing"


class TableSettings(DataSettings):
    """Keys that all table sources have."""

    tasks: ClassVar[tuple[Task, ...]] = ("classification", "regression", "multilabel")

    # Numeric columns; absent: all except the ID, the label and the categorical columns.
    numeric: tuple[str, ...] | None = None
    categorical: tuple[str, ...] = ()  # categorical columns
    # Whether the model also sees each number's rank among the training rows, which helps with
    # skewed columns; only with preprocessing = "fitted".
    ranks: bool = False
    # Column with the labels; only for the active party and for clients. labels.task = "multilabel":
    # the list of the columns, one per label, with the cells 0 and 1.
    label: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    # Column with the date of each row, by which split.kind = "time" divides the rows; only for the
    # active party. ISO 8601, such as 2024-01-31, or 31.01.2024, or numbers. It is no feature.
    time: str | None = None
    # Column with the weight of each row in the loss; only for the active party, with
    # training.sample_weights. Numbers from 0 on, not all 0. It is no feature.
    weight: str | None = None
    label_strip: str = ""  # characters that are removed from the end of labels
    missing: tuple[str, ...] = ()  # texts that mark a missing value, besides empty cells and NULL
    # Which of several rows with the same ID is used; absent: duplicate IDs are an error.
    dedupe: Literal["first"] | None = None
    max_rows: Count = 100_000_000  # largest number of rows; a larger table is refused
    max_columns: Count = 10_000  # largest number of columns; a wider table is refused

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of the columns with labels; empty without labels."""
        return (self.label,) if isinstance(self.label, str) else self.label or ()


@dataclass(frozen=True, slots=True)
class ColumnRoles:
    """The names of the columns to read, grouped by use."""

    ids: tuple[str, ...]
    label: str | None  # column with the classes
    numeric: tuple[str, ...]  # features, then ``targets``, then ``weight``
    categorical: tuple[str, ...]
    targets: tuple[str, ...] = ()  # columns with labels that are numbers
    time: str | None = None  # column with dates
    weight: str | None = None  # column with the weights of the rows

    @property
    def features(self) -> tuple[str, ...]:
        """The numeric columns that are features."""
        others = len(self.targets) + (self.weight is not None)
        return self.numeric[: len(self.numeric) - others]

    def listed(self) -> list[tuple[str, str]]:
        """Return a pair (use, column name) for every column to read."""
        label = () if self.label is None else (self.label,)
        uses = {"id": self.ids, "label": label, "numeric": self.numeric}
        uses["categorical"] = self.categorical
        uses["time"] = () if self.time is None else (self.time,)
        return [(use, column) for use, columns in uses.items() for column in columns]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Chunk:
    """Some consecutive rows of a table.

    Attributes:
        numbers: line or row number of each row, ``[rows]``.
        texts: cells of ID, label, categorical and date columns; "" for an absent value.
        numeric: ``[rows, numeric columns]``, as returned by ``parse_numbers``.
        ragged: numbers of the rows with too few or too many cells; the chunk excludes these rows.
    """

    numbers: Index
    texts: dict[str, list[str]]
    numeric: Array
    ragged: Sequence[int] = ()


class Sheet(Protocol):
    """A table to read: an open file, or the result of a query."""

    @property
    def file(self) -> str:
        """Name of the file or query in error messages."""

    @property
    def unit(self) -> str:
        """Unit of row numbers: "line" or "row"."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of all columns."""

    def chunks(self, roles: ColumnRoles) -> Iterator[Chunk]:
        """Return the rows in chunks; this method may be called only once."""


def collect_records(
    data: TableSettings,
    sheets: Iterable[AbstractContextManager[Sheet]],
    options: ReadOptions,
    memory: int = MEMORY,
) -> Records:
    """Read the records of all tables in ``sheets``.

    Columns larger than ``memory`` bytes are stored in temporary files.

    Raises:
        DataError: the tables do not match the party settings.
        ResourceError: the tables exceed a limit in the party settings.
        StorageError: the temporary folder has no space for large columns.
    """
    collector: _Collector | None = None
    for context in sheets:
        with context as sheet:
            _refuse_bad_columns(data, sheet)
            roles = _roles(data, sheet.columns, options.task)
            if options.agreed is not None:
                features = roles.features + roles.categorical
                options.agreed.check(sheet.file, sheet.columns, features)
            collector = collector or _Collector(data, roles, options.classes, memory)
            _refuse_unknown_columns(collector.roles, sheet)
            collector.read(sheet, options.progress)
    if collector is None:
        raise DataError("the party settings name neither a file nor a query")
    return collector.records()


def _roles(data: TableSettings, columns: Sequence[str], task: Task) -> ColumnRoles:
    ids = () if data.id == "row" else data.id.columns
    labels = data.label_columns
    other_uses = {*ids, *data.categorical, *labels, data.time, data.weight}
    rest = tuple(column for column in columns if column not in other_uses)
    numeric, text = rest if data.numeric is None else data.numeric, task == "classification"
    targets = () if text else labels
    roles = ColumnRoles(
        ids,
        labels[0] if labels and text else None,
        numeric + targets + (() if data.weight is None else (data.weight,)),
        data.categorical,
        targets,
        data.time,
        data.weight,
    )
    uses = Counter(column for _, column in roles.listed())
    for column in (column for column, count in uses.items() if count > 1):
        raise DataError(
            f"column {column!r} is listed more than once in the party settings",
            "list the column under one key only: 'id', 'label', 'numeric', 'categorical', 'time' "
            "or 'weight'",
        )
    return roles


def _refuse_bad_columns(data: TableSettings, sheet: Sheet) -> None:
    if len(sheet.columns) > data.max_columns:
        raise ResourceError(
            f"{sheet.file} has {len(sheet.columns)} columns, more than max_columns = "
            f"{data.max_columns}",
            "increase the key 'max_columns' in the party's data settings, or remove columns",
        )
    seen: set[str] = set()
    for at, column in enumerate(sheet.columns):
        if not column or column in seen:
            fault = "the name of an earlier column" if column else "no name"
            raise DataError(
                f"{sheet.file} has an invalid column name: column {at + 1} has {fault}",
                "give each column a unique name; set names = [...] for a file without a header",
            )
        seen.add(column)


def _refuse_unknown_columns(roles: ColumnRoles, sheet: Sheet) -> None:
    known = set(sheet.columns)
    unknown = [(use, column) for use, column in roles.listed() if column not in known]
    if unknown:
        named = ", ".join(f"{column!r} ({use})" for use, column in unknown[:MAX_PROBLEMS])
        raise DataError(
            f"{sheet.file} has no column {named}",
            _legal(sheet, header=len(unknown) < len(roles.listed())),
        )


def _legal(sheet: Sheet, *, header: bool) -> str:
    """Return a hint with the columns, unless the first line may be a record, with personal data.

    ``header`` says whether a wanted column is among the columns.
    """
    if sheet.unit == "line" and not (header and all(map(is_text, sheet.columns))):
        if not header:
            return (
                "the first line has none of the columns of the party settings; correct the names, "
                "or, if the file has no header, set names = [...]"
            )
        return "the first line looks like a record; if the file has no header, set names = [...]"
    more = ", ..." if len(sheet.columns) > MAX_PROBLEMS else ""
    return f"its columns are {', '.join(sheet.columns[:MAX_PROBLEMS])}{more}"


@dataclass(slots=True)
class _Tally:
    """Number of rows with a fault, and the places of the first rows."""

    count: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.count += 1
            if len(self.first) < MAX_SHOWN:
                self.first.append(number)


class _Codes(dict[str, int]):
    """Mapping of texts to codes, in the order of first appearance."""

    def __init__(self, column: str, absent: Iterable[str]) -> None:
        super().__init__(dict.fromkeys(absent, -1))
        self._column, self.texts = column, list[str]()

    def __missing__(self, text: str) -> int:
        if len(self.texts) == MAX_TEXTS:
            raise ResourceError(
                f"column {self._column!r} has more than {MAX_TEXTS} different texts",
                "remove the column from the key 'categorical': a categorical column must have few "
                "different texts",
            )
        self[text] = len(self.texts)
        self.texts.append(text)
        return self[text]


class _Collector:
    """Columns of all sheets, collected chunk by chunk."""

    def __init__(
        self, data: TableSettings, roles: ColumnRoles, classes: Sequence[str], memory: int
    ) -> None:
        self._data, self.roles = data, roles
        self._absent = frozenset({"", *data.missing})
        self._classes = {name: at for at, name in enumerate(classes)} | {"": ABSENT}
        self._ids, self._numbers = IdStore(memory), ArrayStore(np.int64, memory=memory)
        self._numeric = ArrayStore(np.float64, len(roles.features), memory)
        self._targets = ArrayStore(np.float64, len(roles.targets), memory)
        self._weights = ArrayStore(np.float64, memory=memory)
        self._codes = ArrayStore(np.int32, len(roles.categorical), memory)
        self._labels = ArrayStore(np.int64, memory=memory)
        self._times = ArrayStore(np.float64, memory=memory)
        self._dated: bool | None = None  # whether the time column has dates, not numbers
        self._known = {column: _Codes(column, self._absent) for column in roles.categorical}
        self._void = np.ones(len(roles.numeric), bool)  # columns without a value so far
        self._files: list[tuple[str, int]] = []
        self._unit, self._rows = "row", 0

    def read(self, sheet: Sheet, progress: Progress) -> None:
        """Read one sheet.

        Raises:
            DataError: the sheet has no records, or invalid ones.
            ResourceError: the sheet has too many rows or distinct texts.
        """
        before, self._unit = self._rows, sheet.unit
        ragged, empty, times = _Tally(), _Tally(), (_Tally(), _Tally())
        faults: dict[int, tuple[set[str], _Tally]] = {}
        for chunk in sheet.chunks(self.roles):
            ragged.add(chunk.ragged)
            self._rows += len(chunk.numbers)
            self._refuse_too_many(sheet)
            self._add_ids(sheet, chunk, empty)
            self._add_features(chunk, faults)
            self._add_labels(chunk)
            self._add_times(chunk, times)
            progress(len(chunk.numbers))
        _refuse_ragged(sheet, ragged)
        if self._rows == before:
            raise DataError(
                f"{sheet.file} has no records",
                "add rows below the header, or choose another file or query",
            )
        self._refuse_no_numbers(sheet, faults)
        if empty.count:
            where = describe_rows(sheet.file, sheet.unit, empty.first, empty.count)
            marks = ", also where it is a text of the key missing" if self._data.missing else ""
            raise DataError(
                f"found no ID in {where}{marks}", "give each row an ID, or remove the row"
            )
        _refuse_bad_times(sheet, *times)
        self._files.append((sheet.file, self._rows - before))

    def records(self) -> Records:
        """Return the records of all sheets. Raises ``DataError`` if a column has no value."""
        self._refuse_void()
        features = self.roles.features + self.roles.categorical
        table = Table(
            numeric=self.roles.features,
            categorical={name: tuple(codes.texts) for name, codes in self._known.items()},
            numbers=self._numeric.array(),
            codes=self._codes.array(),
        )
        return Records(
            files=tuple(self._files),
            unit=self._unit,
            numbers=self._numbers.array(),
            ids=self._ids.ids(),
            table=table if features else None,
            labels=self._label_array(),
            times=None if self.roles.time is None else self._times.array(),
            weights=None if self.roles.weight is None else self._weights.array(),
            digest=self._digest(table),
        )

    def _label_array(self) -> Labels | None:
        """The labels: class indices, [rows], or numbers, [rows] or [rows, labels]."""
        if self.roles.targets:
            targets = self._targets.array()
            return targets[:, 0] if len(self.roles.targets) == 1 else targets
        return None if self.roles.label is None else self._labels.array()

    def _add_ids(self, sheet: Sheet, chunk: Chunk, empty: _Tally) -> None:
        if self.roles.ids:
            ids, missing = normalise_ids(
                [self._present(chunk.texts[each]) for each in self.roles.ids]
            )
            empty.add(chunk.numbers[missing].tolist())
        else:
            ids = row_ids(sheet.file, chunk.numbers)
        self._ids.append(ids)
        self._numbers.append(chunk.numbers)

    def _present(self, texts: list[str]) -> list[str]:
        """Return texts of IDs with the marks of absent values as empty texts.

        A mark that is a number, such as 999, may be an ID, so it is no mark here.
        """
        marks = {mark for mark in self._data.missing if not is_number(mark)}
        return ["" if text.strip() in marks else text for text in texts] if marks else texts

    def _add_features(self, chunk: Chunk, faults: dict[int, tuple[set[str], _Tally]]) -> None:
        numeric = chunk.numeric
        self._void &= np.isnan(numeric).all(axis=0)
        bad = np.abs(numeric) > LARGEST
        for at in np.flatnonzero(bad.any(axis=0)).tolist():
            rows = np.flatnonzero(bad[:, at])
            kinds, tally = faults.setdefault(at, (set(), _Tally()))
            kinds.update(map(describe_fault, set(numeric[rows, at].tolist())))
            tally.add(chunk.numbers[rows].tolist())
        if self.roles.weight is not None:
            numeric, weights = numeric[:, :-1], numeric[:, -1]
            self._weights.append(weights)
        if self.roles.targets:
            numeric, targets = np.split(numeric, [len(self.roles.features)], axis=1)
            self._targets.append(targets)
        self._numeric.append(numeric)
        codes = np.empty((len(numeric), len(self._known)), np.int32)
        for at, (column, known) in enumerate(self._known.items()):
            cells = map(str.strip, chunk.texts[column])
            codes[:, at] = np.fromiter(map(known.__getitem__, cells), np.int32, len(codes))
        self._codes.append(codes)

    def _add_labels(self, chunk: Chunk) -> None:
        if self.roles.label is None:
            return
        stripped, strip = map(str.strip, chunk.texts[self.roles.label]), self._data.label_strip
        texts = ["" if cell in self._absent else cell.rstrip(strip) for cell in stripped]
        self._labels.append(np.array([self._classes.get(text, UNKNOWN) for text in texts]))

    def _add_times(self, chunk: Chunk, faults: tuple[_Tally, _Tally]) -> None:
        """Add the dates; ``faults`` collect cells without a date, and cells with something else."""
        if self.roles.time is None:
            return
        times = np.zeros(len(chunk.numbers))
        for at, cell in enumerate(map(str.strip, chunk.texts[self.roles.time])):
            if cell in self._absent:
                faults[0].add([int(chunk.numbers[at])])
                continue
            try:
                times[at], dated = parse_row_time(cell)
            except (ValueError, OverflowError):
                dated = not self._dated  # counts as a fault below
            else:
                self._dated = dated if self._dated is None else self._dated
            if dated is not self._dated:
                faults[1].add([int(chunk.numbers[at])])
        self._times.append(times)

    def _refuse_too_many(self, sheet: Sheet) -> None:
        if self._rows > self._data.max_rows:
            raise ResourceError(
                f"{sheet.file} has more rows than max_rows = {self._data.max_rows}",
                "increase the key 'max_rows' in the party's data settings, or remove rows",
            )

    def _refuse_no_numbers(self, sheet: Sheet, faults: dict[int, tuple[set[str], _Tally]]) -> None:
        problems = []
        for at, (kinds, tally) in sorted(faults.items()):
            where = describe_rows(sheet.file, sheet.unit, tally.first, tally.count)
            fault = " and ".join(sorted(kinds))
            problems.append(f"{fault} in numeric column {self.roles.numeric[at]!r}: {where}")
        if problems:
            raise DataError("\n".join(problems[:MAX_PROBLEMS]), TEXT_HINT)

    def _refuse_void(self) -> None:
        void = [self.roles.numeric[at] for at in np.flatnonzero(self._void).tolist()]
        void += [column for column, known in self._known.items() if not known.texts]
        if void:
            raise DataError(
                f"found no value in any row of column {', '.join(map(repr, void[:MAX_PROBLEMS]))}",
                "remove the column in the party settings; if the agreement lists the column, it "
                "needs a value in at least one row",
            )

    def _digest(self, table: Table) -> bytes:
        stores = [self._numbers, self._numeric, self._codes, self._labels]
        stores += [self._targets] if self.roles.targets else []
        stores += [self._times] if self.roles.time else []
        stores += [self._weights] if self.roles.weight else []
        parts = [self._ids.digest(), *(store.digest() for store in stores)]
        described = repr((self._files, self.roles.listed(), table.categorical)).encode()
        return sha256(b"".join(parts) + described).digest()


def _refuse_bad_times(sheet: Sheet, absent: _Tally, bad: _Tally) -> None:
    if absent.count:
        where = describe_rows(sheet.file, sheet.unit, absent.first, absent.count)
        raise DataError(f"found no date in {where}", "give each row a date, or remove the row")
    if bad.count:
        where = describe_rows(sheet.file, sheet.unit, bad.first, bad.count)
        raise DataError(
            f"found neither a date nor a number, or one of each, in the time column: {where}",
            "write all dates as 2024-01-31 or 31.01.2024, or write numbers only",
        )


def _refuse_ragged(sheet: Sheet, ragged: _Tally) -> None:
    if ragged.count:
        where = describe_rows(sheet.file, sheet.unit, ragged.first, ragged.count)
        raise DataError(
            f"expected {len(sheet.columns)} fields per line; found another number of fields "
            f"in {where}",
            "quote a field that contains the delimiter; set comment = '...' to skip other lines",
        )
