"""CSV source: strict parsing in blocks; error messages contain line numbers and no values."""

import codecs
import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np
from pydantic import field_validator

from configs.table import PathText
from parties.common.errors import DataError, ResourceError
from parties.data.sources.arrays import Array, Index
from parties.data.sources.cells import NO_NUMBER, Decimal, parse_numbers
from parties.data.sources.collect import Chunk, ColumnRoles, TableSettings, collect_records
from parties.data.sources.files import foreign_format, open_data_file
from parties.data.sources.records import Records
from parties.data.sources.source import IdColumns, ReadOptions, data_paths

MAX_LINE = 1 << 20  # characters
_BLOCK = 1 << 20  # bytes; a line within one block is not too long
_QUOTES = "a record is one line; inside a quoted field a double quote is doubled"

_Lines = tuple[int, list[str]]  # number of the first line, and the lines

Delimiter: TypeAlias = Literal[",", ";", "\t", "|"]
DELIMITERS: Final[tuple[Delimiter, ...]] = get_args(Delimiter)


class CsvData(TableSettings):
    """CSV files."""

    added_later: ClassVar[frozenset[str]] = frozenset({"delimiter", "encoding", "decimal"})

    kind: Literal["csv"]
    path: PathText
    test_path: PathText | None = None
    delimiter: Delimiter = ","  # character between two fields of a line
    # Character encoding of the files: utf-8, cp1252 (Windows), utf-16, or another one of Python's.
    encoding: str = "utf-8"
    # Decimal separator of numbers. No number may have a separator of thousands.
    decimal: Decimal = "."
    names: tuple[str, ...] | None = None  # names of the columns, for files without a header
    comment: str | None = None  # text at the beginning of lines that are skipped

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, encoding: str) -> str:
        try:
            "".encode(encoding)  # refuses codecs that do not encode text
            codecs.getincrementaldecoder(encoding)
        except (LookupError, UnicodeError, ValueError):
            raise ValueError(
                "the key 'encoding' must be a text encoding such as utf-8, cp1252 or utf-16"
            ) from None
        return encoding

    @property
    def named_columns(self) -> dict[str, str]:
        """The columns that the settings name, each with its use."""
        ids = self.id.columns if isinstance(self.id, IdColumns) else ()
        uses = {"id": ids, "label": self.label_columns}
        uses["time"] = () if self.time is None else (self.time,)
        uses["weight"] = () if self.weight is None else (self.weight,)
        uses |= {"numeric": self.numeric or (), "categorical": self.categorical}
        return {column: use for use, columns in uses.items() for column in columns}

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
        return collect_records(self, sheets, options)

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
        columns = self.names or _first_record(self, file, head)
        absent = [
            f"{column!r} ({use})" for column, use in self.named_columns.items()
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
        self._data = data
        self._blocks: Iterator[_Lines] = _lines(name, file, data.encoding)
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
            picked = list(map(str.strip, grid.ravel().tolist()))
            values = parse_numbers(picked, self._missing, self._data.decimal)
            values = values.reshape(len(numbers), len(pick))
            self._refuse_other_decimal(roles, numbers, values, picked)
            yield Chunk(
                numbers=numbers,
                texts={column: cells[at[column] :: width] for column in texts},
                numeric=values,
                ragged=ragged,
            )

    def _header(self) -> tuple[str, ...]:
        """Return the cells of the first record, and leave the lines behind it."""
        for number, lines in self._blocks:
            for passed, line in enumerate(lines, 1):
                _, records = _parsed(self._data, self.file, number + passed - 1, [line])
                if records:
                    rest = (number + passed, lines[passed:])
                    self._blocks = chain([rest], self._blocks)
                    columns = tuple(cell.strip() for cell in records[0])
                    _refuse_other_delimiter(self._data, self.file, line, columns)
                    return columns
        raise DataError(f"{self.file} has no records", "the file is empty")

    def _cells(self, number: int, lines: list[str]) -> tuple[Index, list[str], list[int]]:
        """Return the numbers of the records, their cells row by row, and the ragged lines."""
        width = len(self.columns)
        cells = None if self._data.comment else _plain_cells(lines, width, self._data.delimiter)
        if cells is not None:
            return np.arange(number, number + len(lines)), cells, []
        numbers, records = _parsed(self._data, self.file, number, lines)
        numbers, records, ragged = _even(numbers, records, width)
        if ragged and not numbers and self._data.names is not None:  # else: the header is checked
            _refuse_other_width(self._data, self.file, ragged[0], lines[ragged[0] - number])
        return np.array(numbers, np.int64), list(chain.from_iterable(records)), ragged

    def _refuse_other_decimal(
        self, roles: ColumnRoles, numbers: Index, values: Array, cells: list[str]
    ) -> None:
        """Raise ``DataError`` if a cell that is no number is one with the other separator."""
        bad = np.flatnonzero(values.ravel() == NO_NUMBER).tolist()
        other: Decimal = "," if self._data.decimal == "." else "."
        found = parse_numbers([cells[at] for at in bad], self._missing, other)
        if np.isfinite(found).any():
            row, column = divmod(bad[int(np.argmax(np.isfinite(found)))], len(roles.numeric))
            name = {",": "comma", ".": "point"}[other]
            raise DataError(
                f"{self.file}: line {numbers[row]} has a number with a {name} in numeric column "
                f"{roles.numeric[column]!r}, but decimal = {toml_text(self._data.decimal)}",
                f"if the {name} separates decimal places, set decimal = {toml_text(other)} in the "
                "party's data settings; else remove the separators of thousands",
            )


def toml_text(text: str) -> str:
    """Return ``text`` as a TOML string in quotes."""
    return json.dumps(text, ensure_ascii=False)


def split_record(line: str, delimiter: str) -> list[str]:
    """Return the fields of one line, without blanks around them.

    If a field is longer than the module ``csv`` reads, quotes have no meaning in the line.
    """
    try:
        cells = next(csv.reader([line], skipinitialspace=True, delimiter=delimiter), [])
    except csv.Error:
        cells = line.split(delimiter)
    return [cell.strip() for cell in cells]


def _refuse_other_delimiter(data: CsvData, file: str, header: str, columns: Sequence[str]) -> None:
    """Raise ``DataError`` if the header has the named columns only with another delimiter."""
    named = data.named_columns.keys()
    if named <= set(columns) and (named or len(columns) > 1):
        return
    for other in DELIMITERS:
        cells = split_record(header, other)
        if other != data.delimiter and len(cells) > 1 and named <= set(cells):
            raise _other_delimiter(data, f"the header of {file}", len(columns), other, len(cells))


def _refuse_other_width(data: CsvData, file: str, number: int, line: str) -> None:
    """Raise ``DataError`` if a line has the declared number of fields with another delimiter."""
    width = len(data.names or ())
    for other in DELIMITERS:
        if other != data.delimiter and len(split_record(line, other)) == width:
            found = len(split_record(line, data.delimiter))
            raise _other_delimiter(data, f"line {number} of {file}", found, other, width)


def _other_delimiter(
    data: CsvData, place: str, found: int, other: Delimiter, would: int
) -> DataError:
    return DataError(
        f"{place} has {found} {'field' if found == 1 else 'fields'} with delimiter = "
        f"{toml_text(data.delimiter)}, and {would} fields with {toml_text(other)}",
        f"set delimiter = {toml_text(other)} in the party's data settings",
    )


def _plain_cells(lines: list[str], width: int, delimiter: str) -> list[str] | None:
    """Return the cells of ``lines``, row by row; None unless each line is a record without quotes.

    A list per record takes most of the time of the module ``csv``, because Python's garbage
    collection visits these lists.
    """
    text = "\n".join(lines)
    blank = width == 1 and (" " in text or "" in lines)  # perhaps a blank line, which is no record
    if blank or '"' in text or set(map(str.count, lines, repeat(delimiter))) != {width - 1}:
        return None
    cells = text.replace("\n", delimiter).split(delimiter)
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


def _lines(file: str, content: BinaryIO, encoding: str) -> Iterator[_Lines]:
    """Yield the lines of a file in blocks; any line ends are accepted.

    Raises:
        DataError: the file is packed, of another encoding, or contains a zero byte.
        ResourceError: a line is longer than ``MAX_LINE``.
    """
    codec = text_codec(encoding)
    characters = codecs.getincrementaldecoder(codec)()
    ends = io.IncrementalNewlineDecoder(None, translate=True)
    rest, number, left = "", 1, os.fstat(content.fileno()).st_size
    while True:
        block = content.read(min(_BLOCK, left))  # at most the initial size: the file may grow
        left -= len(block)
        if number == 1 and not rest:
            _refuse_packed(file, block)
        try:
            text = rest + ends.decode(characters.decode(block, final=not block), final=not block)
        except UnicodeError as error:
            valid = _decoded_before(error, codec)
            line = number + (rest + ends.decode(valid, final=True)).count("\n")
            raise _misencoded(f"{file}: line {line}", encoding, block) from None
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


def text_codec(encoding: str) -> str:
    """Return the codec of an encoding; that of UTF-8 skips a byte order mark."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _decoded_before(error: UnicodeError, codec: str) -> str:
    """Return the text of a block before the first byte that is not of its encoding."""
    if not isinstance(error, UnicodeDecodeError):
        return ""
    return error.object[: error.start].decode(codec, errors="replace")


def _misencoded(place: str, encoding: str, content: bytes) -> DataError:
    """Return the error for a text that is not of its encoding, with one that it may have."""
    utf8 = codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")
    hint = 'if the file is from Windows, set encoding = "cp1252" in the party\'s data settings'
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        hint = 'set encoding = "utf-16" in the party\'s data settings'
    elif not utf8:
        hint = "remove the key 'encoding' from the party's data settings"
    name = "UTF-8" if utf8 else encoding
    return DataError(f"{place} is not {name}", f"{hint}; or save the file as UTF-8")


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
    data: CsvData, file: str, number: int, block: list[str]
) -> tuple[list[int], list[list[str]]]:
    """Return line numbers and records. Raises ``DataError`` for a line that is no record.

    A record is one line, so that the error of an open quote names its line.
    """
    lines = block
    if data.comment:
        lines = ["" if line.startswith(data.comment) else line for line in block]
    try:
        records = list(_strict_reader(data, lines))
    except csv.Error:
        records = []
    if len(records) != len(lines):
        raise _misquoted(data, file, number, lines)
    numbered = list(range(number, number + len(lines)))
    if [] in records or [""] in records:
        kept = [at for at, record in enumerate(records) if record not in ([], [""])]
        numbered, records = [numbered[at] for at in kept], [records[at] for at in kept]
    return numbered, records


def _strict_reader(data: CsvData, lines: Sequence[str]) -> Iterator[list[str]]:
    return csv.reader(lines, skipinitialspace=True, strict=True, delimiter=data.delimiter)


def _misquoted(data: CsvData, file: str, number: int, lines: Sequence[str]) -> DataError:
    """Return the error for the first line that is no record."""
    for line, text in enumerate(lines, number):
        try:
            next(_strict_reader(data, [text]), None)
        except csv.Error as error:
            fault = str(error)
            if fault == "unexpected end of data":
                return DataError(f"{file}: line {line} ends inside a quoted field", _QUOTES)
            return DataError(f"{file}: line {line}: {fault}", _QUOTES)
    return DataError(f"{file}: a quoted field is not closed", _QUOTES)


def _first_record(data: CsvData, file: str, head: bytes) -> list[str]:
    """Return the cells of the header; only a later line can be cut at the end of ``head``."""
    comment = data.comment
    for line in head.decode(text_codec(data.encoding), errors="replace").splitlines():
        if line.strip() and not (comment and line.startswith(comment)):
            break
    else:
        raise DataError(f"{file} has no records", "add rows, or name another file")
    if "\ufffd" in line or "\0" in line:
        raise _misencoded(f"{file}: the header", data.encoding, head)
    cells = split_record(line, data.delimiter)
    _refuse_other_delimiter(data, file, line, cells)
    return cells
