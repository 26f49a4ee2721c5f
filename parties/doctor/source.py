"""Checks of a party's data files; either the beginning of each file or all rows are read."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from parties.common.errors import DataError, PolicyError
from parties.data.holding import read_holding
from parties.data.preprocess import declared_preprocessing
from parties.data.sources.csv_source import CsvData
from parties.data.sources.files import foreign_format
from parties.data.sources.registry import Data
from parties.data.sources.source import DataSettings, IdColumns
from parties.doctor.check import ExaminedVerticalParty, Finding, fail, fail_with, ok
from parties.doctor.folders import path_exists

_HEAD = 1 << 16  # bytes read of each file


def data_files(party: ExaminedVerticalParty) -> list[Path]:
    """Return the files that the party settings name as data."""
    return [party.folder / path for path in party.settings.data.files()]


def check_data(party: ExaminedVerticalParty, *, whole: bool) -> Iterator[Finding]:
    """Check labels, request files and data files; if ``whole``, all rows are read, as in a run."""
    yield from _label(party)
    yield from _request_files(party)
    sound = True
    for found in check_file_heads(party.settings.data, party.folder):
        sound = not found.code
        yield found
    if whole and sound:
        yield _read(party)


def check_file_heads(data: Data, folder: Path) -> Iterator[Finding]:
    """Check the beginning of each file; stop after the first file that cannot be used."""
    files = [folder / path for path in data.files()]
    if not files:
        yield ok("data", f"{data.kind}: needs no file of this party")
    for path in files:
        try:
            yield _check_file(path, data)
        except DataError as error:
            yield fail("data", error)
            return


def _label(party: ExaminedVerticalParty) -> Iterator[Finding]:
    """Check that the active party has labels and no other party has."""
    data = party.settings.data
    if data.has_labels and not party.active:
        yield fail_with(
            "label", "labels at a passive party", "remove label from the party settings", DataError
        )
    elif party.active and not data.has_labels:
        yield fail_with("label", "the active party's data has no labels", "set label", DataError)


def _request_files(party: ExaminedVerticalParty) -> Iterator[Finding]:
    if not party.active:
        return
    for name in (each.name for each in party.config.agreement.unlearn if not each.classes):
        path = party.settings.unlearn.get(name)
        if path is None or not path_exists(path):
            yield fail_with(
                "request",
                f"request {name!r} names no classes, and has no file of IDs",
                f'set [unlearn] {name} = "ids.txt" in the party settings',
                DataError,
            )


def _check_file(path: Path, data: Data) -> Finding:
    head = _head(path, data)
    size = path.stat().st_size
    message = f"{path}, {size / 1e6:.1f} MB"
    if not isinstance(data, CsvData):
        return ok("data", message)
    columns = _columns(path, head, data)
    return ok("data", f"{message}, {len(columns)} columns with all that the party settings name")


def _head(path: Path, data: DataSettings) -> bytes:
    try:
        if not path.exists():
            origin = f"get the file from {data.origin}; " if data.origin else ""
            raise DataError(
                f"{path} does not exist", f"{origin}name the folder of the file with --data DIR"
            )
        if not path.is_file():
            raise DataError(f"{path} is not a regular file", "name a file, not a folder or pipe")
        if not path.stat().st_size:
            raise DataError(f"{path} is empty", "add rows, or name another file")
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}",
            "allow the account that runs vfl to read the file",
        ) from None


def _columns(path: Path, head: bytes, data: CsvData) -> Sequence[str]:
    """Return the columns of a CSV file; raise an error if a column of the settings is missing."""
    packed = foreign_format(head)
    if packed:
        raise DataError(
            f"{path.name} is not CSV but {packed}", "unpack the file, or save the data as CSV"
        )
    columns = data.names or _first_record(path, head, data.comment)
    ids = data.id.columns if isinstance(data.id, IdColumns) else ()
    uses = {"id": ids, "label": (data.label,) if data.label else ()}
    uses |= {"numeric": data.numeric or (), "categorical": data.categorical}
    absent = [
        f"{column!r} ({use})" for use, named in uses.items() for column in named
        if column not in columns
    ]  # fmt: skip
    if absent:
        raise DataError(
            f"{path.name} has no column {', '.join(absent)}",
            "compare the columns in the party settings with the header",
        )
    return columns


def _first_record(path: Path, head: bytes, comment: str | None) -> list[str]:
    """Return the cells of the header; only a later line can be cut at the end of ``head``."""
    for line in head.decode("utf-8-sig", errors="replace").splitlines():
        if line.strip() and not (comment and line.startswith(comment)):
            break
    else:
        raise DataError(f"{path.name} has no records", "add rows, or name another file")
    if "\ufffd" in line or "\0" in line:
        raise DataError(f"{path.name}: the header is not UTF-8 text", "save the file as UTF-8")
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def _read(party: ExaminedVerticalParty) -> Finding:
    agreement = party.config.agreement
    try:
        holding = read_holding(
            party.settings.data,
            folder=party.folder,
            classes=agreement.labels.classes,
            active=party.active,
        )
        if agreement.preprocessing == "declared":
            declared_preprocessing(holding, party.settings.data)
    except DataError as error:
        return fail("all rows", error)
    limits = {"limits.rows": agreement.limits.rows}
    if party.active and agreement.psi.security == "hardened":
        limits["psi.queries"] = agreement.psi.queries
    for name, limit in limits.items():
        if len(holding) > limit:
            message = f"{len(holding)} rows; {name} is {limit}"
            return fail_with("all rows", message, f"agree on a larger {name}", PolicyError)
    return ok("all rows", f"{holding!r}, all of them can be used")
