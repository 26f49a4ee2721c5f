"""Can this party's data be read: a look at the files' beginnings, or all of it on demand."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from configs.seat import Columns, CsvData, Data, Source, TinyImageNetData
from parties.common.errors import DataError, PolicyError
from parties.data.holding import read_holding
from parties.data.preprocess import declared
from parties.data.sources.files import foreign_format
from parties.doctor.check import Examined, Finding, fail, ok, trouble
from parties.doctor.folders import is_there

_HEAD = 1 << 16  # bytes that are looked at


def data_files(examined: Examined) -> list[Path]:
    """Every file that the data table of the seat names."""
    return files_of(examined.seat.data, examined.folder)


def files_of(data: Data, folder: Path) -> list[Path]:
    """Every file that a data table names; relative paths begin in ``folder``."""
    if isinstance(data, TinyImageNetData):  # a folder, in which every image is a file
        return [folder / data.path / "val" / "val_annotations.txt"]
    named: list[object] = []
    for field in type(data).model_fields:
        value = getattr(data, field)
        named += value if isinstance(value, tuple) else [value]
    return [folder / path for path in named if isinstance(path, Path)]


def check_data(examined: Examined, *, whole: bool) -> Iterator[Finding]:
    """Look at every file's beginning; ``whole`` reads everything as a run does."""
    yield from _label(examined)
    yield from _request_files(examined)
    sound = True
    for found in look_at(examined.seat.data, examined.folder):
        sound = not found.code
        yield found
    if whole and sound:
        yield _read(examined)


def look_at(data: Data, folder: Path) -> Iterator[Finding]:
    """The beginning of every file, up to the first that cannot be used."""
    files = files_of(data, folder)
    if not files:
        yield ok("data", f"{data.kind}: no file of this party's own")
    for path in files:
        try:
            yield _look(path, data)
        except DataError as error:
            yield fail("data", error)
            return


def _label(examined: Examined) -> Iterator[Finding]:
    """Labels stand at the active party and nowhere else."""
    data = examined.seat.data
    has = any(getattr(data, option, None) for option in ("label", "labels", "test_labels"))
    if has and not examined.active:
        yield trouble("label", "labels at a passive party", "take label out of the seat", DataError)
    elif examined.active and not has:
        yield trouble("label", "the active party's data has no labels", "set label", DataError)


def _request_files(examined: Examined) -> Iterator[Finding]:
    if not examined.active:
        return
    for name in (each.name for each in examined.config.agreement.unlearn if not each.classes):
        path = examined.seat.unlearn.get(name)
        if path is None or not is_there(path):
            yield trouble(
                "request",
                f"request {name!r} names no classes, and there is no file of IDs for it",
                f'[unlearn] {name} = "ids.txt" in the seat',
                DataError,
            )


def _look(path: Path, data: Data) -> Finding:
    head = _head(path, data)
    size = path.stat().st_size
    said = f"{path}, {size / 1e6:.1f} MB"
    if not isinstance(data, CsvData):
        return ok("data", said)
    columns = _columns(path, head, data)
    return ok("data", f"{said}, {len(columns)} columns, all that the seat names are there")


def _head(path: Path, data: Source) -> bytes:
    try:
        if not path.exists():
            origin = f"get it from {data.origin} and say" if data.origin else "say"
            raise DataError(f"no file {path}", f"{origin} where it lies with --data DIR")
        if not path.is_file():
            raise DataError(f"{path} is no regular file", "name a file, no folder or pipe")
        if not path.stat().st_size:
            raise DataError(f"{path} is empty")
        with path.open("rb") as file:
            return file.read(_HEAD)
    except OSError as error:
        raise DataError(
            f"cannot read {path}: {error.strerror}", "which account runs vfl here?"
        ) from None


def _columns(path: Path, head: bytes, data: CsvData) -> Sequence[str]:
    """The columns of a text table, when all that the seat names are among them."""
    packed = foreign_format(head)
    if packed:
        raise DataError(f"{path.name} is no CSV file but {packed}", "unpack it, or save it as CSV")
    columns = data.names or _first_record(path, head, data.comment)
    ids = data.id.columns if isinstance(data.id, Columns) else ()
    uses = {"id": ids, "label": (data.label,) if data.label else ()}
    uses |= {"numeric": data.numeric or (), "categorical": data.categorical}
    absent = [
        f"{column!r} ({use})" for use, named in uses.items() for column in named
        if column not in columns
    ]  # fmt: skip
    if absent:
        raise DataError(
            f"{path.name} has no column {', '.join(absent)}", "compare the seat with the header"
        )
    return columns


def _first_record(path: Path, head: bytes, comment: str | None) -> list[str]:
    """The header; bytes that are cut at the end of the head are of a later line."""
    for line in head.decode("utf-8-sig", errors="replace").splitlines():
        if line.strip() and not (comment and line.startswith(comment)):
            break
    else:
        raise DataError(f"{path.name} has no records", "it is empty")
    if "\ufffd" in line or "\0" in line:
        raise DataError(f"{path.name}: the header is not UTF-8 text", "save it as UTF-8")
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True))]


def _read(examined: Examined) -> Finding:
    agreement = examined.config.agreement
    try:
        holding = read_holding(
            examined.seat.data,
            folder=examined.folder,
            classes=agreement.labels.classes,
            active=examined.active,
        )
        if agreement.preprocessing == "declared":
            declared(holding, examined.seat.data)
    except DataError as error:
        return fail("all rows", error)
    limits = {"limits.rows": agreement.limits.rows}
    if examined.active and agreement.psi.security == "hardened":
        limits["psi.queries"] = agreement.psi.queries
    for name, limit in limits.items():
        if len(holding) > limit:
            told = f"{len(holding)} rows; {name} is {limit}"
            return trouble("all rows", told, "agree on more", PolicyError)
    return ok("all rows", f"{holding!r}, every one can be used")
