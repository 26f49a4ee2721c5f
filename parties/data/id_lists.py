"""Lists of IDs as people send them: CSV with or without a header, or one ID per line.

The delimiter is a comma, a semicolon or a tab. A header is recognised by the names of the party's
ID columns; other columns are then ignored. Without a header, a line has exactly the ID columns. A
line without a usable ID is counted and does not end the reading.
"""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from parties.common.errors import DataError
from psi.errors import PsiError
from psi.ids import join_columns, normalise

Encoding: TypeAlias = Literal["utf-8", "cp1252"]
DELIMITERS: Final = (",", ";", "\t")
LARGEST_LIST: Final = 1 << 30  # bytes
Record: TypeAlias = tuple[int, list[str]]  # line number and cells


@dataclass(frozen=True, slots=True, repr=False)
class ListedIds:
    """The IDs of a list, each once, in the order of the list.

    Attributes:
        texts: the IDs as written; tabs separate several columns.
        ids: the IDs in normal form.
        lines: number of the line of each ID, from 1.
        unusable: numbers of the lines without a usable ID.
        repeated: numbers of the lines that repeat an earlier ID.
    """

    texts: tuple[str, ...]
    ids: tuple[bytes, ...]
    lines: tuple[int, ...]
    unusable: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"ListedIds of {len(self)} IDs"

    def translate(self, identity_of: Callable[[bytes], bytes | None]) -> "ListedIds":
        """Return the list with the ID of the row that each entry names; two may name the same row.

        Args:
            identity_of: returns the ID, UTF-8, of an entry; None if the entry has not the form of
                an entry, so that its line is unusable.
        """
        found: dict[bytes, int] = {}
        unusable, repeated = [*self.unusable], [*self.repeated]
        for entry, line in zip(self.ids, self.lines, strict=True):
            identity = identity_of(entry)
            if identity is None:
                unusable.append(line)
            elif identity in found:
                repeated.append(line)
            else:
                found[identity] = line
        return ListedIds(
            texts=tuple(identity.decode() for identity in found),
            ids=tuple(found),
            lines=tuple(found.values()),
            unusable=tuple(sorted(unusable)),
            repeated=tuple(sorted(repeated)),
        )


def read_id_list(path: Path, columns: Sequence[str], encoding: Encoding = "utf-8") -> ListedIds:
    """Read a list of IDs from a file.

    Args:
        path: the file.
        columns: names of the party's ID columns; empty if IDs are file names and row numbers.
        encoding: encoding of the file; a byte order mark is ignored.

    Raises:
        DataError: the file cannot be read, is empty, has another encoding, contains no usable ID,
            or has lines whose ID columns cannot be found.
    """
    text = text_of_list(path, encoding)
    found = _listed(_records(path, text, columns), max(1, len(columns)))
    if not found.ids:
        raise DataError(f"{path} contains no usable ID", "write one ID per line")
    return found


@dataclass(frozen=True, slots=True, repr=False)
class ListedLabels:
    """IDs with labels; ``labels`` are names of classes, in the order of ``listed``."""

    listed: ListedIds
    labels: tuple[str, ...]


def read_label_list(
    path: Path,
    columns: Sequence[str],
    label: str,
    classes: Sequence[str],
    encoding: Encoding = "utf-8",
) -> ListedLabels:
    """Read a list of IDs, each with a label in a further column.

    Args:
        path: the file.
        columns: names of the party's ID columns; empty if IDs are file names and row numbers.
        label: name of the column with the labels; without a header, they are in the last column.
        classes: names of all classes.
        encoding: encoding of the file; a byte order mark is ignored.

    Raises:
        DataError: the list of IDs cannot be read, a label is no class, or an ID has two labels.
    """
    text, width = text_of_list(path, encoding), max(1, len(columns))
    named = [*(columns or ("id",)), label]
    lines = dict(_records(path, text, named))
    listed = _listed(((number, cells[:width]) for number, cells in lines.items()), width)
    if not listed.ids:
        raise DataError(
            f"{path} contains no usable ID with a label",
            f"write the columns {', '.join(named)}, one row per line",
        )
    labels: dict[bytes, str] = {}
    for number in sorted(lines.keys() - set(listed.unusable)):
        name = "".join(cell.strip() for cell in lines[number][width:])
        if name not in classes:
            raise DataError(
                f"{path}: line {number} has a label that is no class of the agreement",
                f"the classes are {', '.join(classes)}",
            )
        (identity,) = _listed(iter([(number, lines[number][:width])]), width).ids
        if labels.setdefault(identity, name) != name:
            raise DataError(
                f"{path}: line {number} names another label than an earlier line with the same ID",
                "write one line for each ID",
            )
    return ListedLabels(listed, tuple(labels[each] for each in listed.ids))


def list_of_ids(texts: Sequence[str], columns: Sequence[str]) -> ListedIds:
    """Return the IDs in ``texts``, in which tabs separate the columns of an ID.

    Raises:
        DataError: a text is not an ID of these columns.
    """
    width = max(1, len(columns))
    found = _listed(enumerate((text.split("\t") for text in texts), 1), width)
    if found.unusable or not found.ids:
        numbers = ", ".join(map(str, found.unusable[:5]))
        raise DataError(
            f"--id number {numbers} is not an ID of {width} columns" if numbers else "no ID given",
            "separate the columns of an ID with tabs",
        )
    return found


def _listed(records: Iterable[Record], width: int) -> ListedIds:
    """Return the IDs of records; records without a usable ID are counted."""
    found: dict[bytes, tuple[str, int]] = {}
    unusable, repeated = [], []
    for number, cells in records:
        try:
            parts = [normalise(cell) for cell in cells]
        except PsiError:
            parts = []
        if len(parts) != width:
            unusable.append(number)
            continue
        identity = parts[0] if width == 1 else join_columns(parts)
        if identity in found:
            repeated.append(number)
        found.setdefault(identity, ("\t".join(cells), number))
    texts, lines = [text for text, _ in found.values()], [line for _, line in found.values()]
    return ListedIds(tuple(texts), tuple(found), tuple(lines), tuple(unusable), tuple(repeated))


def text_of_list(path: Path, encoding: Encoding = "utf-8") -> str:
    """Return the content of a list that is not empty.

    Raises:
        DataError: the file cannot be read, is empty or too large, or has another encoding.
    """
    text = _decoded(path, encoding)
    if not text.strip():
        raise DataError(f"{path} is empty", "write one ID per line")
    return text


def _decoded(path: Path, encoding: Encoding) -> str:
    try:
        if path.stat().st_size > LARGEST_LIST:
            raise DataError(
                f"{path} has more than {LARGEST_LIST} bytes", "split the list into several files"
            )
        content = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"cannot read the IDs in {path}: {error.strerror}", "check the path and its permissions"
        ) from error
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content:
        raise DataError(f"{path} is not a text file in UTF-8", "save the file as UTF-8")
    try:
        return content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        more = ", or give --encoding cp1252 to a request to forget" if encoding == "utf-8" else ""
        raise DataError(
            f"{path}: line {line} is not {encoding.upper()} text", f"save the file as UTF-8{more}"
        ) from None


def table_records(path: Path, text: str, columns: Sequence[str]) -> list[Record] | None:
    """Return line number and cells of each record that is not blank below a header.

    Args:
        path: the file, for messages.
        text: its content.
        columns: names of the wanted columns, in whose order the cells are.

    Returns:
        The records, without cells where a line is too short; None if the first line does not name
        all columns.

    Raises:
        DataError: a line is not valid CSV.
    """
    for delimiter in DELIMITERS if columns else ():
        places = _places(_header(path, text, delimiter), columns)
        if places:
            rows = _rows(path, text, delimiter)
            next(rows)
            return [
                (number, [cells[at] for at in places] if max(places) < len(cells) else [])
                for number, cells in rows
            ]
    return None


def _places(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    """Return the places of the columns in a header; empty if one is absent or ambiguous.

    Capital letters count only where they tell two columns apart.
    """
    for form in (str.strip, lambda name: name.strip().casefold()):
        found, wanted = [*map(form, names)], [*map(form, columns)]
        if all(found.count(name) == 1 for name in wanted):
            return [found.index(name) for name in wanted]
    return []


def _header(path: Path, text: str, delimiter: str) -> list[str]:
    """Return the cells of the first record; a cell in quotes may contain a line break."""
    try:
        return next(_rows(path, text, delimiter), (0, list[str]()))[1]
    except DataError:  # of another delimiter, or a list without a header
        return _cells(_first_line(text), delimiter)


def _first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line for line in text.splitlines() if line.strip()), "")


def _records(path: Path, text: str, columns: Sequence[str]) -> Iterator[Record]:
    """Yield line number and ID cells of each record that is not blank."""
    found = table_records(path, text, columns)
    if found is not None:
        yield from found
        return
    width, first = max(1, len(columns)), _first_line(text)
    widths = {delimiter: len(_cells(first, delimiter)) for delimiter in DELIMITERS}
    chosen = next((each for each in DELIMITERS if widths[each] == width > 1), None)
    several = next((each for each in DELIMITERS if widths[each] > 1), None)
    if chosen is None and (width > 1 or several is not None):
        raise DataError(
            f"{path}: the first line has {widths[several] if several else 1} columns, expected "
            f"{width}: {', '.join(columns) or 'the ID'}",
            "write a first line with the names of the columns; an ID that contains a comma, a "
            "semicolon or a tab needs double quotes",
        )
    yield from _rows(path, text, chosen or ",")


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the fields of one line; quotes have no meaning if a field is too long for ``csv``."""
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        return line.split(delimiter)


def _rows(path: Path, text: str, delimiter: str) -> Iterator[Record]:
    """Yield line number and cells of each record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        raise DataError(
            f"{path}: line {reader.line_num} is not valid CSV",
            'close every double quote, and write "" for a double quote inside an ID',
        ) from error
