"""CSV source: strict parsing in blocks; error messages contain line numbers and no values."""

import codecs
import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from configs.table import PathText
from parties.common.errors import DataError, ResourceError
from parties.data.sources.arrays import Index
from parties.data.sources.cells import parse_numbers
from parties.data.sources.collect import Chunk, ColumnRoles, TableSettings, collect_records
from parties.data.sources.files import foreign_format, open_data_file
from parties.data.sources.records import Records
from parties.data.sources.source import IdColumns, ReadOptions, data_paths

MAX_LINE = 1 << 20  # characters
_BLOCK = 1 << 20  # bytes; a line within one block is not too long
_QUOTES = "a record is one line; inside a quoted field a double quote is doubled"

_Lines = tuple[int, list[str]]  # number of the first line, and the lines


class CsvData(TableSettings):
    """CSV files."""

    kind: Literal["csv"]
    path: PathText
    test_path: PathText | None = None
    names: tuple[str, ...] | None = None  # names of the columns, for files without a header
    comment: str | None = None  # text at the beginning of lines that are skipped

    def read(self, options: ReadOptions) -> Records:
        """Read the records of the file, and of the test file if there is one.

        Raises:
            DataError: the files do not match the party settings.
            ResourceError: the files exceed a limit in the party settings.
            IntegrityError: a file changed while it was read.
            StorageError: the temporary folder has no space for large columns.
        """
        paths = data_paths(self.path, self.test_path, self.id)
        sheets = (open_csv(self, options.folder, path) for path in paths)
        return collect_records(self, sheets, options.classes, options.progress)

    def check_head(self, file: str, head: bytes) -> str:
        """Check that a file begins with a header that has all columns of the settings.

        Raises:
            DataError: the file is packed, has no header, or lacks a column.
        """
        packed = foreign_format(head)
        if packed:
            raise DataError(
                f"{file} is not CSV but {packed}", "unpack the file, or save the data as CSV"
            )
        columns = self.names or _first_record(file, head, self.comment)
        ids = self.id.columns if isinstance(self.id, IdColumns) else ()
        uses = {"id": ids, "label": (self.label,) if self.label else ()}
        uses |= {"numeric": self.numeric or (), "categorical": self.categorical}
        absent = [
            f"{column!r} ({use})" for use, named in uses.items() for column in named
            if column not in columns
        ]  # fmt: skip
        if absent:
            raise DataError(
                f"{file} has no column {', '.join(absent)}",
                "compare the columns in the party settings with the header",
            )
        return f"{len(columns)} columns with all that the party settings name"


@contextmanager
def open_csv(data: CsvData, folder: Path, path: Path) -> Iterator["_CsvSheet"]:
    """Open one CSV file in a ``with`` block.

    Raises:
        DataError: the file cannot be read.
    """
    with open_data_file(folder, path, data.origin) as file:
        yield _CsvSheet(data, path.name, file)


class _CsvSheet:
    """An open CSV file; blank lines and comments are skipped, but counted."""

    unit = "line"

    def __init__(self, data: CsvData, name: str, file: BinaryIO) -> None:
        self.file, self._missing = name, frozenset({"", *data.missing})
        self._comment = data.comment
        self._blocks: Iterator[_Lines] = _lines(name, file)
        self.columns = self._header() if data.names is None else data.names

    def chunks(self, roles: ColumnRoles) -> Iterator[Chunk]:
        """Return the records, one chunk per block. Raises ``DataError`` for invalid text."""
        width = len(self.columns)
        at = {column: position for position, column in enumerate(self.columns)}
        texts = [column for use, column in roles.listed() if use != "numeric"]
        pick = [at[column] for column in roles.numeric]
        for number, lines in self._blocks:
            numbers, cells, ragged = self._cells(number, lines)
            grid = np.array(cells, np.object_).reshape(len(numbers), width)[:, pick]
            values = parse_numbers(list(map(str.strip, grid.ravel().tolist())), self._missing)
            yield Chunk(
                numbers=numbers,
                texts={column: cells[at[column] :: width] for column in texts},
                numeric=values.reshape(len(numbers), len(pick)),
                ragged=ragged,
            )

    def _header(self) -> tuple[str, ...]:
        """Return the cells of the first record, and leave the lines behind it."""
        for number, lines in self._blocks:
            for passed, line in enumerate(lines, 1):
                _, records = _parsed(self.file, number + passed - 1, [line], self._comment)
                if records:
                    rest = (number + passed, lines[passed:])
                    self._blocks = chain([rest], self._blocks)
                    return tuple(cell.strip() for cell in records[0])
        raise DataError(f"{self.file} has no records", "the file is empty")

    def _cells(self, number: int, lines: list[str]) -> tuple[Index, list[str], list[int]]:
        """Return the numbers of the records, their cells row by row, and the ragged lines."""
        width = len(self.columns)
        cells = None if self._comment else _plain_cells(lines, width)
        if cells is not None:
            return np.arange(number, number + len(lines)), cells, []
        numbers, records = _parsed(self.file, number, lines, self._comment)
        numbers, records, ragged = _even(numbers, records, width)
        return np.array(numbers, np.int64), list(chain.from_iterable(records)), ragged


def _plain_cells(lines: list[str], width: int) -> list[str] | None:
    """Return the cells of ``lines``, row by row; None unless each line is a record without quotes.

    A list per record takes most of the time of the module ``csv``, because Python's garbage
    collection visits these lists.
    """
    text = "\n".join(lines)
    blank = width == 1 and (" " in text or "" in lines)  # perhaps a blank line, which is no record
    if blank or '"' in text or set(map(str.count, lines, repeat(","))) != {width - 1}:
        return None
    cells = text.replace("\n", ",").split(",")
    return None if max(map(len, cells)) > csv.field_size_limit() else cells


def _even(
    lines: list[int], records: list[list[str]], width: int
) -> tuple[list[int], list[list[str]], list[int]]:
    """Return line numbers and records of ``width`` cells, and the line numbers of all others."""
    if set(map(len, records)) <= {width}:
        return lines, records, []
    kept = [at for at, record in enumerate(records) if len(record) == width]
    ragged = [line for line, record in zip(lines, records, strict=True) if len(record) != width]
    return [lines[at] for at in kept], [records[at] for at in kept], ragged


def _lines(file: str, content: BinaryIO) -> Iterator[_Lines]:
    """Yield the lines of a file in blocks; any line ends are accepted.

    Raises:
        DataError: the file is packed, not UTF-8, or contains a zero byte.
        ResourceError: a line is longer than ``MAX_LINE``.
    """
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()
    ends = io.IncrementalNewlineDecoder(None, translate=True)
    rest, number, left = "", 1, os.fstat(content.fileno()).st_size
    while True:
        block = content.read(min(_BLOCK, left))  # at most the initial size: the file may grow
        left -= len(block)
        if number == 1 and not rest:
            _refuse_packed(file, block)
        try:
            text = rest + ends.decode(utf8.decode(block, final=not block), final=not block)
        except UnicodeDecodeError as error:
            valid = error.object[: error.start].decode("utf-8-sig")
            line = number + (rest + ends.decode(valid, final=True)).count("\n")
            raise DataError(f"{file}: line {line} is not UTF-8", "save the file as UTF-8") from None
        if "\0" in text:
            line = number + text.count("\n", 0, text.index("\0"))
            raise DataError(f"{file}: line {line} contains a zero byte", "save the file as UTF-8")
        lines = text.split("\n")
        rest = lines.pop()
        _refuse_long(file, number, [*lines[:1], rest], len(lines))
        if lines:
            yield number, lines
        number += len(lines)
        if not block:
            if rest:
                yield number, [rest]
            return


def _refuse_packed(file: str, start: bytes) -> None:
    packed = foreign_format(start)
    if packed:
        raise DataError(
            f"{file} is not a CSV file but {packed}", "unpack the file, or save it as CSV"
        )


def _refuse_long(file: str, number: int, ends: Sequence[str], lines: int) -> None:
    """Check the first and the last line of a block, which may continue in other blocks."""
    for line, text in zip((number, number + lines)[-len(ends) :], ends, strict=True):
        if len(text) > MAX_LINE:
            raise ResourceError(
                f"{file}: line {line} has more than {MAX_LINE} characters",
                "the file must be text with one record per line",
            )


def _parsed(
    file: str, number: int, block: list[str], comment: str | None
) -> tuple[list[int], list[list[str]]]:
    """Return line numbers and records. Raises ``DataError`` for a line that is no record.

    A record is one line, so that the error of an open quote names its line.
    """
    lines = block
    if comment:
        lines = ["" if line.startswith(comment) else line for line in block]
    try:
        records = list(csv.reader(lines, skipinitialspace=True, strict=True))
    except csv.Error:
        records = []
    if len(records) != len(lines):
        raise _misquoted(file, number, lines)
    numbered = list(range(number, number + len(lines)))
    if [] in records or [""] in records:
        kept = [at for at, record in enumerate(records) if record not in ([], [""])]
        numbered, records = [numbered[at] for at in kept], [records[at] for at in kept]
    return numbered, records


def _misquoted(file: str, number: int, lines: Sequence[str]) -> DataError:
    """Return the error for the first line that is no record."""
    for line, text in enumerate(lines, number):
        try:
            next(csv.reader([text], skipinitialspace=True, strict=True), None)
        except csv.Error as error:
            fault = str(error)
            if fault == "unexpected end of data":
                return DataError(f"{file}: line {line} ends inside a quoted field", _QUOTES)
            return DataError(f"{file}: line {line}: {fault}", _QUOTES)
    return DataError(f"{file}: a quoted field is not closed", _QUOTES)


def _first_record(file: str, head: bytes, comment: str | None) -> list[str]:
    """Return the cells of the header; only a later line can be cut at the end of ``head``."""
    for line in head.decode("utf-8-sig", errors="replace").splitlines():
        if line.strip() and not (comment and line.startswith(comment)):
            break
    else:
        raise DataError(f"{file} has no records", "add rows, or name another file")
    if "\ufffd" in line or "\0" in line:
        raise DataError(f"{file}: the header is not UTF-8 text", "save the file as UTF-8")
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]
