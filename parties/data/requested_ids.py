"""IDs of a prediction request: from a file, from a caller, or all IDs of a party's data.

In an ID of several columns, tabs separate the columns, as in the files of unlearning requests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parties.common.errors import DataError
from parties.data.holding import Holding
from parties.data.id_lists import table_records, text_of_list
from parties.data.sources.source import DataSettings
from psi.errors import PsiError
from psi.ids import join_columns, normalise

_LENGTH = 4  # bytes before each part of an ID of several columns


@dataclass(frozen=True, slots=True, repr=False)
class RequestedIds:
    """The IDs of one request, in the order of the request; an ID may occur twice.

    Attributes:
        texts: the IDs as written in the request; the predictions contain the same texts.
        ids: the normalised IDs.
    """

    texts: list[str]
    ids: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.ids)


def id_columns(data: DataSettings) -> tuple[str, ...]:
    """Return the names of the ID columns; none if an ID consists of file name and row number."""
    return () if data.id == "row" else data.id.columns


def read_ids(path: Path, columns: Sequence[str]) -> RequestedIds:
    """Read the IDs in a file: a table with the ID ``columns``, or one ID per line.

    A table has a first line with the names of its columns, which commas, semicolons or tabs
    separate; a file whose name ends in .csv is always one. Blank lines do not count.

    Raises:
        DataError: the file cannot be read, lacks an ID column, or has a line without a
            valid ID.
    """
    text = text_of_list(path)
    entries = table_records(path, text, columns)
    if entries is None and path.suffix.lower() == ".csv" and columns:
        raise DataError(
            f"{path.name} has no column {' or no column '.join(map(repr, columns))}",
            f"a .csv file must have the ID columns {', '.join(columns)}; a file with one ID per "
            "line must not end in .csv",
        )
    if entries is None:
        lines = enumerate(text.splitlines(), 1)
        entries = [(number, line.split("\t")) for number, line in lines if line.strip()]
    if not entries:
        raise DataError(f"{path} contains no IDs", "write one ID per line")
    width = max(1, len(columns))
    ids = [_normal(parts, width, f"{path}: line {number}") for number, parts in entries]
    return RequestedIds(["\t".join(parts) for _, parts in entries], ids)


def parse_ids(texts: Sequence[str], columns: Sequence[str]) -> RequestedIds:
    """Return the IDs in ``texts``.

    Raises:
        DataError: a text is not a valid ID of these ``columns``.
    """
    width = max(1, len(columns))
    parts = enumerate(text.split("\t") for text in texts)
    return RequestedIds(list(texts), [_normal(cells, width, f"ids[{at}]") for at, cells in parts])


def all_ids(holding: Holding, columns: Sequence[str]) -> RequestedIds:
    """Return the IDs of all rows of a party's data."""
    several = len(columns) > 1
    texts = [
        "\t".join(_parts(identity)) if several else identity.decode() for identity in holding.ids
    ]
    return RequestedIds(texts, holding.ids)


def _normal(parts: Sequence[str], width: int, where: str) -> bytes:
    if not parts:
        raise DataError(f"{where} has no ID", "write a cell for each ID column on every line")
    if len(parts) != width:
        raise DataError(
            f"{where} has {len(parts)} ID columns; expected {width}",
            "separate the columns of an ID with tabs",
        )
    try:
        normal = [normalise(part) for part in parts]
    except PsiError as error:
        raise DataError(f"{where} contains no valid ID") from error
    return normal[0] if width == 1 else join_columns(normal)


def _parts(identity: bytes) -> Iterator[str]:
    """Return the columns of a joined ID: the inverse of ``join_columns``."""
    while identity:
        end = _LENGTH + int.from_bytes(identity[:_LENGTH], "big")
        yield identity[_LENGTH:end].decode()
        identity = identity[end:]
