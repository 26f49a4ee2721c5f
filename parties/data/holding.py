"""The data that one party holds: checked rows with IDs, features and labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from configs.targets import Task
from parties.common.errors import DataError
from parties.data.sources.arrays import Array, Images, Index, Labels, Mask, Progress
from parties.data.sources.collect import TableSettings
from parties.data.sources.feature_noise import add_feature_noise
from parties.data.sources.images import ImageSettings
from parties.data.sources.records import ABSENT, MAX_SHOWN, UNKNOWN, Records
from parties.data.sources.source import DataSettings, ReadOptions, SampleSettings
from parties.data.sources.store import duplicate_ids, select_ids
from parties.data.sources.table import Table

WEIGHTS = (1e-30, 1e30)  # the smallest and the largest weight of a row that is not 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Holding:
    """The rows of one party; ``repr`` shows no row, because rows are personal data.

    Attributes:
        ids: normalised, unique IDs.
        in_test: ``[rows]``, True if the row is from the test file.
        table: feature columns; None if the party has images or no features.
        images: ``[rows, channels, h, w]``, pixels from 0 to 1.
        labels: class indices or numbers, ``[rows]``, or several binary labels, ``[rows, labels]``;
            only at the active party.
        times: date of each row, as a number that grows with time, ``[rows]``; None without.
        weights: weight of each row in the loss, ``[rows]``, from 0 on; None without.
        digest: SHA-256 of the data that was read.
        ranks: whether features include the ranks of numeric columns.
    """

    ids: Sequence[bytes]
    in_test: Mask
    table: Table | None = None
    images: Images | None = None
    labels: Labels | None = None
    times: Array | None = None
    weights: Array | None = None
    digest: bytes = b""
    ranks: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Holding of {len(self)} rows"

    @property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric columns of ``table``."""
        return () if self.table is None else self.table.numeric

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of the categorical columns of ``table``."""
        return () if self.table is None else tuple(self.table.categorical)


def read_holding(
    data: DataSettings,
    *,
    folder: Path,
    classes: Sequence[str],
    active: bool,
    task: Task = "classification",
    several_classes: bool = True,
    progress: Progress = lambda _: None,
) -> Holding:
    """Read the data that the party settings describe; paths may be relative to ``folder``.

    The data must have labels if ``active`` is True, and no labels otherwise. If ``several_classes``
    is True, the labels must have at least two classes; ``several_classes`` is False for clients of
    horizontal federated learning, because one client may have rows of only one class. ``task`` says
    what the labels are; ``classes`` are their names.

    Raises:
        DataError: the data cannot be used; the message contains no IDs and no cell values.
        ResourceError: the data exceeds a limit in the party settings.
        IntegrityError: a file changed while it was read.
        StorageError: the temporary folder has no space for large columns.
    """
    options = ReadOptions(folder, classes, progress, task)
    return read_with_options(data, options, active=active, several_classes=several_classes)


def read_with_options(
    data: DataSettings, options: ReadOptions, *, active: bool, several_classes: bool
) -> Holding:
    """Read data as ``read_holding`` does, with ``options`` for the source.

    Raises:
        DataError: the data cannot be used; the message contains no IDs and no cell values.
        ResourceError: the data exceeds a limit in the party settings.
        IntegrityError: a file changed while it was read.
        StorageError: the temporary folder has no space for large columns.
    """
    task, classes = options.task, options.classes
    _refuse_misplaced_labels(data, active)
    if active:
        _refuse_other_labels(data, task, classes)
    records = data.read(options)
    if isinstance(data, ImageSettings) and data.noise is not None:
        records = add_feature_noise(records, data.noise)
    duplicates = duplicate_ids(records.ids)
    if duplicates and not (isinstance(data, TableSettings) and data.dedupe):
        raise _duplicate_error(records, duplicates)
    holding = Holding(
        ids=records.ids,
        in_test=records.in_test(),
        table=records.table,
        images=records.images,
        labels=_labels(records, task, classes, several_classes=several_classes) if active else None,
        times=records.times,
        weights=_checked_weights(records, data),
        digest=records.digest,
        ranks=isinstance(data, TableSettings) and data.ranks,
    )
    if not active:
        _refuse_no_features(holding)
    if duplicates:
        repeated = [row for _, row in duplicates]
        holding = select_rows(holding, np.delete(np.arange(len(holding)), repeated))
    return holding if data.sample is None else _sample_rows(holding, data.sample)


def _refuse_no_features(holding: Holding) -> None:
    if holding.table is None and holding.images is None:
        raise DataError(
            "the data of this passive party has no features",
            "a passive party needs features; select columns or images in the table [data]",
        )


def _refuse_misplaced_labels(data: DataSettings, active: bool) -> None:
    if data.has_labels and not active:
        raise DataError(
            "the data of a passive party has labels",
            "only the active party may have labels; remove data.label (idx files: data.labels and "
            "data.test_labels) from the party settings",
        )
    if active and not data.has_labels:
        raise DataError(
            "the active party's data has no labels",
            f"set data.{data.label_keys[0]} in the party settings",
        )


def _refuse_other_labels(data: DataSettings, task: Task, classes: Sequence[str]) -> None:
    """Refuse a source whose labels are not those of the task."""
    if task not in data.tasks:
        raise DataError(
            f"labels.task = {task!r} is not possible with data of this kind",
            f"use a table (csv, parquet or sql), or set labels.task = {data.tasks[0]!r}",
        )
    count = len(data.label_columns)
    if task == "multilabel" and count != len(classes):
        raise DataError(
            f"data.label names {count} columns, but labels.classes has {len(classes)} names",
            "list one column per name, in the same order: label = [...]",
        )
    if task != "multilabel" and count > 1:
        raise DataError(
            f"data.label names {count} columns, but labels.task = {task!r} has one label",
            "name one column",
        )


def _duplicate_error(records: Records, pairs: Sequence[tuple[int, int]]) -> DataError:
    shown = "; ".join(
        f"{records.place(earlier)} and {records.place(row)}" for earlier, row in pairs[:MAX_SHOWN]
    )
    more = "; ..." if len(pairs) > MAX_SHOWN else ""
    return DataError(
        f"{len(pairs)} duplicate IDs: {shown}{more}",
        "IDs are compared after Unicode NFKC and without outer blanks; keep one row per ID, or "
        'set dedupe = "first" for a table to keep the first row',
    )


def _labels(
    records: Records, task: Task, classes: Sequence[str], *, several_classes: bool
) -> Labels:
    labels = records.labels
    if labels is None:
        raise DataError("the active party's data has no labels")
    if task != "classification":
        _refuse_bad_numbers(records, labels, binary=task == "multilabel")
        return labels
    for code, fault in ((ABSENT, "no label"), (UNKNOWN, "an unknown label")):
        faulty = np.flatnonzero(labels == code)
        if len(faulty):
            raise DataError(
                f"some labels cannot be used: found {fault} in {records.places(faulty)}",
                f"use one of the classes {', '.join(classes)}",
            )
    if several_classes and (labels == labels[0]).all():
        raise DataError("all rows have the same label", "add rows of another class")
    return labels


def _refuse_bad_numbers(records: Records, labels: Labels, *, binary: bool) -> None:
    """Refuse labels that are no numbers, or not 0 or 1; ``[rows]`` or ``[rows, labels]``."""
    columns = labels.reshape(len(labels), -1)
    absent = np.flatnonzero(np.isnan(columns).any(axis=1))
    if len(absent):
        raise DataError(
            f"some labels cannot be used: found no label in {records.places(absent)}",
            "write a number, or remove the row",
        )
    other = np.flatnonzero(~np.isin(columns, (0, 1)).all(axis=1))
    if binary and len(other):
        raise DataError(
            f"some labels cannot be used: found neither 0 nor 1 in {records.places(other)}",
            "write 1 if the row has the label, else 0",
        )
    if (columns == columns[0]).all():
        raise DataError("all rows have the same label", "add rows with another label")


def _checked_weights(records: Records, data: DataSettings) -> Array | None:
    """The weights of the rows, ``[rows]``; refuses absent, negative and extreme ones."""
    weights = records.weights
    if weights is None:
        return None
    column = f"the column {getattr(data, 'weight', None)!r} (data.weight)"
    least, most = WEIGHTS
    extreme = (weights != 0) & ((weights < least) | (weights > most))
    kinds = {
        "no weight": np.isnan(weights),
        "a negative weight": weights < 0,
        f"a weight above 0 that is not from {least:g} to {most:g}": extreme & (weights > 0),
    }
    for fault, faulty in kinds.items():
        if faulty.any():
            rows = np.flatnonzero(faulty)
            raise DataError(
                f"{column} cannot be used: found {fault} in {records.places(rows)}",
                "a weight is a number from 0 on; a row of weight 0 has no part in the loss",
            )
    if not weights.any():
        raise DataError(
            f"{column} cannot be used: the weights of all {len(weights)} rows are 0",
            "give at least the rows that the model has to learn a weight above 0",
        )
    return weights


def _sample_rows(holding: Holding, sample: SampleSettings) -> Holding:
    count = max(1, round(sample.fraction * len(holding)))
    rows = np.random.default_rng(sample.seed).permutation(len(holding))[:count]
    digest = sha256(holding.digest + rows.astype("<i8").tobytes()).digest()
    return replace(select_rows(holding, rows), digest=digest)


def select_rows(holding: Holding, rows: Index) -> Holding:
    """Return the rows with the indices ``rows``, ``[rows]``; the digest stays that of the data."""
    return Holding(
        ids=select_ids(holding.ids, rows),
        in_test=holding.in_test[rows],
        table=None if holding.table is None else holding.table.take(rows),
        images=None if holding.images is None else holding.images[rows],
        labels=None if holding.labels is None else holding.labels[rows],
        times=None if holding.times is None else holding.times[rows],
        weights=None if holding.weights is None else holding.weights[rows],
        digest=holding.digest,
        ranks=holding.ranks,
    )
