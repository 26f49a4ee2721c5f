"""Detection of a CSV file's encoding, delimiter and decimal separator from its content."""

import codecs
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from parties.common.errors import DataError
from parties.data.sources.cells import Decimal, is_text
from parties.data.sources.csv_source import DELIMITERS, Delimiter, split_record, text_codec
from parties.data.sources.files import foreign_format

_LINES: Final = 2000  # lines from which delimiter and decimal separator are detected
_BLOCK: Final = 1 << 20  # bytes
_BOMS: Final = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_GUESSES: Final = ("utf-8", "cp1252")  # tried in this order; cp1252 has five undefined bytes
# Numbers with one separator, and numbers with a separator of thousands: 1.234.567 and 1.234,5.
_PLAIN: Final = {
    each: re.compile(rf"[+-]?\d*{re.escape(each)}\d+") for each in (",", ".")
}  # fmt: skip
_THOUSANDS: Final = {
    ",": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d+)?"),  # with decimal = ","
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?"),
}


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How a CSV file is written.

    Attributes:
        delimiter: character between two fields.
        encoding: character encoding, as in the settings of a CSV source.
        decimal: decimal separator of numbers.
    """

    delimiter: Delimiter = ","
    encoding: str = "utf-8"
    decimal: Decimal = "."


def detect_csv(
    path: Path,
    *,
    delimiter: Delimiter | None = None,
    encoding: str | None = None,
    decimal: Decimal | None = None,
) -> CsvForm:
    """Return the form of the CSV file ``path``; a given form is not detected.

    Raises:
        DataError: the file cannot be read, has only one column, has no header, or its form is not
            certain; the hint names the option that states it.
    """
    try:
        encoding = encoding or detect_encoding(path)
        with path.open(encoding=text_codec(encoding), errors="strict", newline=None) as file:
            lines = [line.rstrip("\n") for line in islice(file, _LINES) if line.strip()]
    except UnicodeError:
        raise DataError(
            f"{path.name} is not {encoding}", "give the right --encoding, such as cp1252"
        ) from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    delimiter = delimiter or detect_delimiter(path.name, lines)
    records = [split_record(line, delimiter) for line in lines]
    _refuse_no_header(path.name, records[:1])
    even = [each for each in records[1:] if len(each) == len(records[0])]
    columns = [[each[at] for each in even] for at in range(len(records[0]))]
    return CsvForm(delimiter, encoding, decimal or detect_decimal(records[0], columns))


def detect_encoding(path: Path) -> str:
    """Return the encoding of a file: utf-16 by its mark, utf-8 if all bytes are, else cp1252.

    Raises:
        DataError: the file is packed, empty, or of none of these encodings.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(4)
    if packed := foreign_format(head):
        raise DataError(
            f"{path.name} is not a CSV file but {packed}", "unpack the file, or save it as CSV"
        )
    if not head:
        raise DataError(f"{path.name} is empty", "name a file with a header and rows")
    if marked := _BOMS.get(head[:2]):
        return marked
    for encoding in _GUESSES:
        if _decodes(path, encoding):
            return encoding
    raise DataError(
        f"{path.name} is neither UTF-8 nor cp1252", "state the encoding: --encoding NAME"
    )


def detect_delimiter(file: str, lines: Sequence[str]) -> Delimiter:
    """Return the delimiter with which most of ``lines`` have as many fields as the header.

    Raises:
        DataError: with every delimiter the header has a single field.
    """
    best: tuple[float, int, Delimiter] | None = None
    for each in DELIMITERS:
        width = len(split_record(lines[0], each)) if lines else 0
        if width > 1:
            counts = Counter(len(split_record(line, each)) for line in lines)
            found = (counts[width] / len(lines), width, each)
            best = found if best is None or found[:2] > best[:2] else best
    if best is None:
        raise DataError(
            f"{file} has only one column with each of the delimiters , ; | and tab",
            "a table needs a column of IDs and at least one other column",
        )
    return best[2]


def detect_decimal(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Decimal:
    """Return the decimal separator that most columns of ``columns`` show; "." without any.

    ``columns`` has the cells of each column, and ``names`` the columns' names. A number such as
    1,234 may have a decimal comma or a comma between thousands; such columns do not count.

    Raises:
        DataError: only columns with such numbers have a comma, so the separator is not certain.
    """
    votes: Counter[Decimal] = Counter()
    doubtful = []
    for name, cells in zip(names, columns, strict=True):
        shown, doubt = _separators(cells)
        votes.update(shown)
        doubtful += [name] if doubt else []
    if not votes and doubtful:
        raise DataError(
            f"the numbers in column {doubtful[0]!r} have either a decimal comma or a comma between "
            "thousands",
            "state the decimal separator: --decimal , or --decimal .",
        )
    return "," if votes[","] > votes["."] else "."


def has_thousands(cells: Iterable[str], decimal: Decimal) -> bool:
    """Return whether all cells are numbers, some of them with a separator of thousands."""
    found = False
    for cell in cells:
        if _THOUSANDS[decimal].fullmatch(cell):
            found = True
        elif is_text(cell) and not _PLAIN[decimal].fullmatch(cell):
            return False
    return found


def _separators(cells: Sequence[str]) -> tuple[set[Decimal], bool]:
    """Return the separators that the numbers of a column show, and whether they are in doubt."""
    shown: set[Decimal] = set()
    doubt = False
    for decimal, other in ((",", "."), (".", ",")):
        plain = [cell for cell in cells if _PLAIN[decimal].fullmatch(cell)]
        grouped = [cell for cell in plain if _THOUSANDS[other].fullmatch(cell)]
        both = any(
            _THOUSANDS[decimal].fullmatch(cell) and other in cell and decimal in cell
            for cell in cells
        )
        if len(plain) > len(grouped) or both:
            shown.add(decimal)  # type: ignore[arg-type]
        elif plain:
            doubt = doubt or decimal == ","
    return shown, doubt and not shown


def _decodes(path: Path, encoding: str) -> bool:
    """Return whether the whole file is text of the encoding, without zero bytes."""
    decoder = codecs.getincrementaldecoder(encoding)()
    with path.open("rb") as file:
        try:
            while block := file.read(_BLOCK):
                if b"\0" in block:
                    return False
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _refuse_no_header(file: str, first: Sequence[Sequence[str]]) -> None:
    if not first:
        raise DataError(f"{file} has no records", "add a header and rows")
    if any(cell.strip() and not is_text(cell.strip()) for cell in first[0]):
        raise DataError(
            f"the first line of {file} looks like a record, because it contains a number",
            "add a header line with the names of the columns",
        )
