"""Checks of a party's data files; either the beginning of each file or all rows are read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from parties.common.errors import DataError, PolicyError
from parties.data.holding import read_holding
from parties.data.preprocess import declared_preprocessing, declared_target, fit_preprocessing
from parties.data.sources.csv_source import MAX_LINE
from parties.data.sources.registry import Data
from parties.data.sources.source import DataSettings
from parties.doctor.check import ExaminedVerticalParty, Finding, fail, fail_with, ok, warning
from parties.doctor.folders import path_exists

_HEAD = 4 * MAX_LINE  # bytes read of each file: as many as the longest header of a CSV file has


def data_files(party: ExaminedVerticalParty) -> list[Path]:
    """Return the files that the party settings name as data."""
    return [party.folder / path for path in party.settings.data.files()]


def check_data(party: ExaminedVerticalParty, *, whole: bool) -> Iterator[Finding]:
    """Check labels, request files and data files; if ``whole``, all rows are read, as in a run."""
    yield from _label(party)
    yield from _row_columns(party)
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


def _row_columns(party: ExaminedVerticalParty) -> Iterator[Finding]:
    """Check that the active party names columns of dates and of weights if, and only if, needed."""
    agreement = party.config.agreement
    yield from _row_column(
        party,
        "time",
        "split.kind = 'time' divides the rows by a date",
        agreement.split.kind == "time",
    )
    weighted = agreement.training.sample_weights
    yield from _row_column(party, "weight", "training.sample_weights is set", weighted)


def _row_column(
    party: ExaminedVerticalParty, key: str, reason: str, needed: bool
) -> Iterator[Finding]:
    """Check the column that ``data.KEY`` names; only the active party has one, if it is needed."""
    needed = needed and party.active
    named = bool(getattr(party.settings.data, key, None))
    if needed and not named:
        problem = f"{reason}, but the party settings name no column for it"
        hint = f"name the column with the key {key} in the table [data]"
        yield fail_with(key, problem, hint, DataError)
    elif named and not needed:
        yield fail_with(key, f"nothing uses data.{key}", f"remove data.{key}", DataError)


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
    shown = data.check_head(path.name, head)
    return ok("data", f"{message}, {shown}" if shown else message)


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


def _read(party: ExaminedVerticalParty) -> Finding:
    agreement = party.config.agreement
    try:
        holding = read_holding(
            party.settings.data,
            folder=party.folder,
            classes=agreement.labels.classes,
            task=agreement.labels.task,
            active=party.active,
        )
        if agreement.preprocessing == "declared":
            declared_preprocessing(holding, party.settings.data)
            if party.active and agreement.labels.task == "regression":
                declared_target(party.settings.data)
    except DataError as error:
        return fail("all rows", error)
    if agreement.preprocessing == "fitted" and party.settings.statistics is None:
        try:  # on all rows, because the training rows are not known yet
            fit_preprocessing(holding, np.arange(len(holding)))
        except DataError as error:
            return warning("all rows", str(error), error.hint)
    limits = {"limits.rows": agreement.limits.rows}
    if party.active and agreement.psi.security == "hardened":
        limits["psi.queries"] = agreement.psi.queries
    for name, limit in limits.items():
        if len(holding) > limit:
            message = f"{len(holding)} rows; {name} is {limit}"
            return fail_with("all rows", message, f"agree on a larger {name}", PolicyError)
    return ok("all rows", f"{holding!r}, all of them can be used")
