"""CSV source: text cut into cells strictly, block by block; complaints name lines, never values."""

import codecs
import csv
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

import numpy as np

from configs.party_settings import CsvData
from parties.common.errors import DataError, ResourceError
from parties.data.sources.cells import parse_numbers
from parties.data.sources.collect import Chunk, ColumnRoles, collect_records
from parties.data.sources.files import foreign_format, open_data_file
from parties.data.sources.records import Progress, Records, data_paths

MAX_LINE = 1 << 20  # characters
_BLOCK = 1 << 20  # bytes; a line that begins and ends in one block is not too long
_QUOTES = "a record is one line; inside a quoted field a double quote is doubled"

_Lines = tuple[int, list[str]]  # the number of the first, and all of them


def read_csv(
    data: CsvData, folder: Path, classes: Sequence[str], progress: Progress = lambda _: None
) -> Records:
    """The records of the file, and of the test file where there is one; raises like ``collect_records``."""
    return collect_records(
        data, (_sheet(data, folder, path) for path in data_paths(data)), classes, progress
    )


@contextmanager
def _sheet(data: CsvData, folder: Path, path: Path) -> Iterator["_CsvSheet"]:
    with open_data_file(folder, path, data.origin) as file:
        yield _CsvSheet(data, path.name, file)


class _CsvSheet:
    """A CSV file; blank lines and comments are skipped, but counted."""

    unit = "line"

    def __init__(self, data: CsvData, name: str, file: BinaryIO) -> None:
        self.file, self._missing = name, frozenset({"", *data.missing})
        blocks = _cut(name, _lines(name, file), data.comment)
        lines, records = next(blocks, ([], []))
        if data.names is not None:
            self.columns = data.names
        elif records:
            self.columns = tuple(cell.strip() for cell in records[0])
            lines, records = lines[1:], records[1:]
        else:
            raise DataError(f"{name} has no records", "it is empty")
        self._blocks = chain([(lines, records)], blocks)

    def chunks(self, roles: ColumnRoles) -> Iterator[Chunk]:
        """Its records, one chunk for a block of the file."""
        at = {column: position for position, column in enumerate(self.columns)}
        texts = [column for use, column in roles.listed() if use != "numeric"]
        pick = itemgetter(*(at[column] for column in roles.numeric)) if roles.numeric else None
        for block in self._blocks:
            lines, records, ragged = _even(*block, len(self.columns))
            flat = [] if pick is None else map(pick, records)
            cells = flat if len(roles.numeric) == 1 else chain.from_iterable(flat)
            values = parse_numbers(list(map(str.strip, cells)), self._missing)
            yield Chunk(
                numbers=np.array(lines, np.int64),
                texts={column: [record[at[column]] for record in records] for column in texts},
                numeric=values.reshape(len(records), len(roles.numeric)),
                ragged=ragged,
            )


def _even(
    lines: list[int], records: list[list[str]], width: int
) -> tuple[list[int], list[list[str]], list[int]]:
    """The records of ``width`` cells with their lines, and the lines of the others."""
    if set(map(len, records)) <= {width}:
        return lines, records, []
    kept = [at for at, record in enumerate(records) if len(record) == width]
    ragged = [line for line, record in zip(lines, records, strict=True) if len(record) != width]
    return [lines[at] for at in kept], [records[at] for at in kept], ragged


def _lines(file: str, content: BinaryIO) -> Iterator[_Lines]:
    """The lines of a file, of any line ends, some at a time; none is longer than ``MAX_LINE``."""
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()
    ends = io.IncrementalNewlineDecoder(None, translate=True)
    rest, number, left = "", 1, os.fstat(content.fileno()).st_size
    while True:
        block = content.read(min(_BLOCK, left))  # a file that grows has no end
        left -= len(block)
        if number == 1 and not rest:
            _refuse_packed(file, block)
        try:
            text = rest + ends.decode(utf8.decode(block, final=not block), final=not block)
        except UnicodeDecodeError as error:
            sound = error.object[: error.start].decode("utf-8-sig")
            line = number + (rest + ends.decode(sound, final=True)).count("\n")
            raise DataError(f"{file}: line {line} is not UTF-8", "save it as UTF-8") from None
        if "\0" in text:
            line = number + text.count("\n", 0, text.index("\0"))
            raise DataError(f"{file}: line {line} holds a zero byte", "save it as UTF-8 text")
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
        raise DataError(f"{file} is no CSV file but {packed}", "unpack it, or save it as CSV")


def _refuse_long(file: str, number: int, ends: Sequence[str], lines: int) -> None:
    """Only the first and the last line of a block may reach into others."""
    for line, text in zip((number, number + lines)[-len(ends) :], ends, strict=True):
        if len(text) > MAX_LINE:
            raise ResourceError(
                f"{file}: line {line} has more than {MAX_LINE} characters",
                "is it text with one record a line?",
            )


def _cut(
    file: str, blocks: Iterator[_Lines], comment: str | None
) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Records with their lines; a record is one line, so an unclosed quote shows at its line."""
    for number, block in blocks:
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
        if records:
            yield numbered, records


def _misquoted(file: str, number: int, lines: Sequence[str]) -> DataError:
    """The first line that is no record by itself."""
    for line, text in enumerate(lines, number):
        try:
            next(csv.reader([text], skipinitialspace=True, strict=True), None)
        except csv.Error as error:
            fault = str(error)
            if fault == "unexpected end of data":
                return DataError(f"{file}: line {line} ends inside a quoted field", _QUOTES)
            return DataError(f"{file}: line {line}: {fault}", _QUOTES)
    return DataError(f"{file}: a quoted field is not closed", _QUOTES)
