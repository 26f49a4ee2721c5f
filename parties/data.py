"""The holding: all that one party brings to the table, read from its own files and checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

import numpy as np
import pandas as pd

from configs.seat import CsvData, Data, IdxData, NumpyData, Sample, SklearnData
from parties.errors import DataError
from parties.sources.csv_source import read_csv
from parties.sources.idx_source import read_idx
from parties.sources.npz_source import read_numpy
from parties.sources.records import ABSENT, SHOWN, UNKNOWN, Images, Index, Mask, Records
from parties.sources.sklearn_source import read_sklearn
from psi.errors import PsiError
from psi.ids import join_columns, normalise


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Holding:
    """The rows of one party; its repr shows none, since rows are personal.

    Attributes:
        ids: normalised and unique.
        in_test: [rows], True where the row comes from the official test file.
        table: [rows] of feature columns, NaN or None where a value is absent.
        images: [rows, 1, h, w], pixels from 0 to 1.
        labels: [rows], class index; only at the active party.
    """

    ids: Sequence[bytes]
    in_test: Mask
    table: pd.DataFrame | None = None
    images: Images | None = None
    labels: Index | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Holding of {len(self)} rows"

    @property
    def numeric(self) -> tuple[str, ...]:
        """The numeric columns of ``table``."""
        return () if self.table is None else _names(self.table.select_dtypes("number"))

    @property
    def categorical(self) -> tuple[str, ...]:
        """The other columns of ``table``."""
        return () if self.table is None else _names(self.table.select_dtypes(exclude="number"))


def read_holding(data: Data, *, folder: Path, classes: Sequence[str], active: bool) -> Holding:
    """Read what the seat describes; relative paths begin in ``folder``.

    Raises:
        DataError: the data cannot be used; the message holds no value and no ID of a row.
    """
    _refuse_misplaced_labels(data, active)
    records = _records(data, folder, classes)
    holding = Holding(
        ids=_ids(records),
        in_test=np.repeat([False, True][: len(records)], [len(part.ids) for part in records]),
        table=_table(records),
        images=_images(records),
        labels=_labels(records, classes) if active else None,
    )
    if not active and holding.table is None and holding.images is None:
        raise DataError("a passive party brings features, and this seat's data has none")
    return holding if data.sample is None else _sampled(holding, data.sample)


def _names(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(map(str, table.columns))


def _refuse_misplaced_labels(data: Data, active: bool) -> None:
    label = data.labels or data.test_labels if isinstance(data, IdxData) else data.label
    if label and not active:
        raise DataError(
            "labels at a passive party",
            "only the active party has labels: take the label option out of this seat",
        )
    if active and not label:
        option = "labels" if isinstance(data, IdxData) else "label"
        raise DataError("the active party's data has no labels", f"set {option} in its seat")


def _records(data: Data, folder: Path, classes: Sequence[str]) -> list[Records]:
    match data:
        case CsvData():
            return read_csv(data, folder, classes)
        case NumpyData():
            return read_numpy(data, folder, classes)
        case SklearnData():
            return read_sklearn(data, classes)
        case IdxData():
            return read_idx(data, folder, classes)
    assert_never(data)


def _ids(records: Sequence[Records]) -> list[bytes]:
    ids = [identity for part in records for identity in _normal(part)]
    if len(set(ids)) < len(ids):
        raise _duplicates(records, ids)
    return ids


def _normal(part: Records) -> list[bytes]:
    ids, empty = [], []
    for record, raw in enumerate(part.ids):
        try:
            parts = [normalise(text) for text in raw]
            ids.append(parts[0] if len(parts) == 1 else join_columns(parts))
        except PsiError:
            empty.append(record)
    if empty:
        raise DataError(f"no ID in {part.places(np.array(empty))}", "give each row one, or drop it")
    return ids


def _duplicates(records: Sequence[Records], ids: Sequence[bytes]) -> DataError:
    first: dict[bytes, tuple[str, tuple[str, ...]]] = {}
    pairs, unlike = [], 0
    for identity, (place, raw) in zip(ids, _placed(records), strict=True):
        earlier, other = first.setdefault(identity, (place, raw))
        if place != earlier:
            pairs.append(f"{earlier} and {place}")
            unlike += raw != other
    shown = "; ".join(pairs[:SHOWN]) + ("; ..." if len(pairs) > SHOWN else "")
    return DataError(
        f"{len(pairs)} duplicate IDs, {unlike} of them written differently with one normal form: "
        f"{shown}",
        "keep one row for each ID; IDs are compared after Unicode NFKC, without outer blanks",
    )


def _placed(records: Sequence[Records]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The place and the raw ID of every record."""
    for part in records:
        for number, raw in zip(part.numbers.tolist(), part.ids, strict=True):
            yield f"{part.file} {part.unit} {number}", raw


def _table(records: Sequence[Records]) -> pd.DataFrame | None:
    tables = [part.table for part in records if part.table is not None]
    if not tables:
        return None
    table = pd.concat(tables, ignore_index=True)
    void = [repr(column) for column in table if table[column].isna().all()]
    if void:
        raise DataError(
            f"no value in any row of column {', '.join(void)}", "take it out of the seat's columns"
        )
    return table


def _images(records: Sequence[Records]) -> Images | None:
    images = [part.images for part in records if part.images is not None]
    if len({part.shape[1:] for part in images}) > 1:
        raise DataError("images of the training and of the test file differ in size")
    return np.concatenate(images) if images else None


def _labels(records: Sequence[Records], classes: Sequence[str]) -> Index:
    found = []
    for part in records:
        if part.labels is None:
            raise DataError(f"{part.file} has no labels")
        for code, fault in ((ABSENT, "no label"), (UNKNOWN, "a label that is no class")):
            faulty = np.flatnonzero(part.labels == code)
            if len(faulty):
                raise DataError(
                    f"{fault} in {part.places(faulty)}", f"the classes are {', '.join(classes)}"
                )
        found.append(part.labels)
    labels = np.concatenate(found)
    if len(np.unique(labels)) < 2:
        raise DataError("all rows have the same label", "there is nothing to learn")
    return labels


def _sampled(holding: Holding, sample: Sample) -> Holding:
    count = max(1, round(sample.keep * len(holding)))
    rows = np.random.default_rng(sample.seed).permutation(len(holding))[:count]
    return Holding(
        ids=[holding.ids[row] for row in rows.tolist()],
        in_test=holding.in_test[rows],
        table=None if holding.table is None else holding.table.iloc[rows].reset_index(drop=True),
        images=None if holding.images is None else holding.images[rows],
        labels=None if holding.labels is None else holding.labels[rows],
    )
