"""CSV text: a file cut into cells, strictly; complaints name lines, never values."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np

from configs.seat import CsvData
from parties.errors import DataError
from parties.sources.records import Index, counted, file_bytes, foreign_format

MAX_LINE = 1 << 20  # characters
_QUOTES = "a record is one line; inside a quoted field a double quote is doubled"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sheet:
    """The cells of a file, and the line on which each record stands."""

    file: str
    columns: tuple[str, ...]
    lines: Index
    records: list[list[str]]

    def cells(self, column: str) -> list[str]:
        """One column."""
        at = self.columns.index(column)
        return [record[at] for record in self.records]


def read_sheet(data: CsvData, folder: Path, path: Path) -> Sheet:
    """Cut the file at ``path``; blank lines and comments are skipped, but counted.

    Raises:
        DataError: no file, no text, no records, a bad header, quote or number of fields.
    """
    content = file_bytes(folder, path, data.origin)
    numbered = list(_cut(path.name, _text(path.name, content), data.comment))
    header = list(data.names or ())
    if data.names is None and numbered:
        _, header = numbered.pop(0)
    if not numbered:
        raise DataError(f"{path.name} has no records", "it is empty, or has a header only")
    _refuse_bad_header(path.name, header)
    _refuse_ragged(path.name, len(header), numbered)
    lines = np.array([line for line, _ in numbered], np.int64)
    return Sheet(path.name, tuple(header), lines, [record for _, record in numbered])


def _refuse_bad_header(file: str, header: Sequence[str]) -> None:
    for at, column in enumerate(header):
        if not column or column in header[:at]:
            fault = "the name of an earlier one" if column else "no name"
            raise DataError(
                f"{file}: column {at + 1} has {fault}",
                "name each column once; give names = [...] for a file without a header",
            )


def _refuse_ragged(file: str, width: int, numbered: Sequence[tuple[int, list[str]]]) -> None:
    ragged = [line for line, record in numbered if len(record) != width]
    if ragged:
        raise DataError(
            f"not {width} fields, one for each column, in {counted(file, 'line', ragged)}",
            "put a field that holds a comma in double quotes; comment = '...' skips other lines",
        )


def _text(file: str, content: bytes) -> str:
    packed = foreign_format(content)
    if packed:
        raise DataError(f"{file} is no CSV file but {packed}", "unpack it, or save it as CSV")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{file}: line {line} is not UTF-8", "save it as UTF-8") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{file}: line {line} holds a zero byte", "save it as UTF-8 text")
    return text


def _cut(file: str, text: str, comment: str | None) -> Iterator[tuple[int, list[str]]]:
    """Every record with its line; a record is one line, so an unclosed quote shows at its line."""
    reader = csv.reader(_lines(file, text, comment), skipinitialspace=True, strict=True)
    line = 0
    while True:
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{file}: line {line + 1}: {error}", _QUOTES) from None
        if record is None:
            return
        if reader.line_num > line + 1:
            raise DataError(f"{file}: line {line + 1} ends inside a quoted field", _QUOTES)
        line += 1
        if record not in ([], [""]):
            yield line, [cell.strip() for cell in record]


def _lines(file: str, text: str, comment: str | None) -> Iterator[str]:
    for number, line in enumerate(StringIO(text, newline=None), 1):
        if len(line) > MAX_LINE:
            raise DataError(f"{file}: line {number} has more than {MAX_LINE} characters")
        yield "\n" if comment and line.startswith(comment) else line
