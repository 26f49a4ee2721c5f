"""Who is asked about: IDs from a file, from a caller or from the party's own data, in their order.

As in the files of unlearning requests, the columns of an ID stand apart by tabs.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.party_settings import Data
from parties.common.errors import DataError
from parties.data.holding import Holding
from psi.errors import PsiError
from psi.ids import join_columns, normalise

_LENGTH = 4  # bytes before each part of an ID of several columns


@dataclass(frozen=True, slots=True, repr=False)
class RequestedIds:
    """The rows of one request; an ID may stand in it twice.

    Attributes:
        texts: as they were written, to be written back.
        ids: normalised.
    """

    texts: list[str]
    ids: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.ids)


def id_columns(data: Data) -> tuple[str, ...]:
    """The columns that make up an ID; none where rows are named by file and line."""
    return () if data.id == "row" else data.id.columns


def read_ids(path: Path, columns: Sequence[str]) -> RequestedIds:
    """The IDs of a file: a table with the party's ID ``columns``, or one ID per line.

    Raises:
        DataError: it cannot be read, lacks a column, or a line holds no such ID.
    """
    table = path.suffix.lower() == ".csv" and columns
    numbered = list(_cells(path, columns) if table else _lines(path))
    if not numbered:
        raise DataError(f"{path} holds no ID", "write one ID a line")
    width = max(1, len(columns))
    ids = [_normal(parts, width, f"{path}: line {number}") for number, parts in numbered]
    return RequestedIds(["\t".join(parts) for _, parts in numbered], ids)


def parse_ids(texts: Sequence[str], columns: Sequence[str]) -> RequestedIds:
    """The IDs that a caller names; raises ``DataError`` like ``read_ids``."""
    width = max(1, len(columns))
    parts = enumerate(text.split("\t") for text in texts)
    return RequestedIds(list(texts), [_normal(each, width, f"ids[{at}]") for at, each in parts])


def all_ids(holding: Holding, columns: Sequence[str]) -> RequestedIds:
    """Every row of our data."""
    several = len(columns) > 1
    texts = ["\t".join(_parts(each)) if several else each.decode() for each in holding.ids]
    return RequestedIds(texts, holding.ids)


def _cells(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and ID of every record of a table."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            table = csv.DictReader(file, strict=True)
            _refuse_unknown(path, columns, table.fieldnames or ())
            for record in table:
                yield table.line_num, [record[column] or "" for column in columns]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read the IDs in {path}", "a CSV file in UTF-8") from error


def _refuse_unknown(path: Path, columns: Sequence[str], held: Sequence[str]) -> None:
    unknown = [column for column in columns if column not in held]
    if unknown:
        raise DataError(
            f"{path.name} has no column {', '.join(map(repr, unknown))}",
            f"the ID columns of this party are {', '.join(columns)}; one ID a line needs another "
            "ending than .csv",
        )


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read the IDs in {path}", "a text file in UTF-8") from error
    yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1))


def _normal(parts: Sequence[str], width: int, where: str) -> bytes:
    if len(parts) != width:
        raise DataError(
            f"{where} has {len(parts)} columns; the IDs of this party have {width}",
            "columns stand apart by tabs",
        )
    try:
        normal = [normalise(part) for part in parts]
    except PsiError as error:
        raise DataError(f"{where} holds no ID") from error
    return normal[0] if width == 1 else join_columns(normal)


def _parts(identity: bytes) -> Iterator[str]:
    """The columns of a joined ID: the way back from ``join_columns``."""
    while identity:
        end = _LENGTH + int.from_bytes(identity[:_LENGTH], "big")
        yield identity[_LENGTH:end].decode()
        identity = identity[end:]
