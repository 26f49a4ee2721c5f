"""A client's data on the shelf: read, dealt where one set is shared, and divided."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from configs.horizontal import Dirichlet, Horizontal, Iid, Leaving, Pathological
from configs.seat import Data
from parties.common.errors import DataError, PolicyError
from parties.common.shared_randomness import Index, key, permutation, shares
from parties.data.holding import Holding, read_holding
from parties.data.partition import dirichlet, iid, pathological
from parties.data.preprocess import declared
from parties.data.sources.records import Mask, Progress
from parties.horizontal.local.learner import Shelf
from parties.horizontal.local.local_task import Rows


@dataclass(frozen=True, slots=True, repr=False)
class Whole:
    """A data set and how it is dealt; its repr shows nothing, since rows are personal."""

    ids: Sequence[bytes]
    in_test: Mask
    rows: Rows
    parts: list[Index]


def read_shelf(
    agreement: Horizontal, name: str, data: Data, folder: Path, progress: Progress
) -> Shelf:
    """The rows of one client.

    Raises:
        DataError: they cannot be used, or are not of the agreed shape.
        PolicyError: they cannot be dealt or divided as agreed.
    """
    return shelf_of(agreement, name, read_whole(agreement, data, folder, progress))


def read_whole(agreement: Horizontal, data: Data, folder: Path, progress: Progress) -> Whole:
    """What one client brings, or what is dealt to several.

    Raises:
        DataError: it cannot be used, or is not of the agreed shape.
        PolicyError: it cannot be dealt as agreed.
    """
    holding = read_holding(
        data,
        folder=folder,
        classes=agreement.labels.classes,
        active=True,
        varied=agreement.partition.kind != "own",  # others may have what one client lacks
        progress=progress,
    )
    rows = _rows(holding, data, agreement.shape)
    return Whole(holding.ids, holding.in_test, rows, dealt(agreement, rows.labels.numpy()))


def shelf_of(agreement: Horizontal, name: str, whole: Whole) -> Shelf:
    """One client's part of it.

    Raises:
        PolicyError: it cannot be divided as agreed.
    """
    ours = whole.parts[agreement.spokes.index(name)]
    ids = [whole.ids[row] for row in ours]
    taught, validation, held = (
        whole.rows.take(ours[part]) for part in _divided(agreement, ids, whole.in_test[ours])
    )
    return Shelf(taught, held, validation=validation)


def dealt(agreement: Horizontal, labels: Index) -> list[Index]:
    """Each client's rows of one data set; all of them where everybody brings its own."""
    clients, seed = len(agreement.spokes), agreement.seed
    match agreement.partition:
        case Iid():
            return iid(labels, clients, seed)
        case Pathological(share=share):
            return pathological(labels, clients, share, seed)
        case Dirichlet(concentration=concentration, least=least):
            return dirichlet(labels, clients, concentration, least, seed)
        case _:
            return [np.arange(len(labels))] * clients


def requested(agreement: Horizontal, request: Leaving, name: str, shelf: Shelf) -> Index:
    """Places among a client's training rows that a request names."""
    if request.client not in (None, name):
        return np.empty(0, np.int64)
    labels = shelf.rows.labels.numpy()
    classes = [agreement.labels.classes.index(each) for each in request.classes]
    meant = np.flatnonzero(np.isin(labels, classes)) if classes else np.arange(len(labels))
    order = permutation(
        key(agreement.seed, "request", request.name, request.seed, name), len(meant)
    )
    return np.sort(meant[order[: round(request.fraction * len(meant))]])


def _rows(holding: Holding, data: Data, shape: Sequence[int]) -> Rows:
    if holding.labels is None:
        raise DataError("a client learns from labels, and this seat's data has none")
    return Rows(inputs(holding, data, shape), torch.from_numpy(holding.labels.astype(np.int64)))


def inputs(holding: Holding, data: Data, shape: Sequence[int]) -> Tensor:
    """All rows as the network takes them, ``[rows, *shape]``.

    Raises:
        DataError: they are not of the agreed shape.
    """
    if holding.images is not None:
        values = np.asarray(holding.images, np.float32)
    else:
        found = declared(holding, data).transform(holding, np.arange(len(holding)))
        values = np.asarray(found, np.float32)
    if values.shape[1:] != tuple(shape):
        raise DataError(
            f"a row of this data has the shape {list(values.shape[1:])}, and the agreement says "
            f"shape = {list(shape)}",
            "all clients hold the same columns",
        )
    return torch.from_numpy(values)


def _divided(agreement: Horizontal, ids: list[bytes], in_test: Mask) -> tuple[Index, Index, Index]:
    """Places of the rows to learn from, and of those held out for validation and for tests."""
    plan, draw = agreement.split, shares(key(agreement.seed, "split"), ids)
    share = 0.0 if plan.kind == "official" else (plan.test or 0.0)
    test = in_test if plan.kind == "official" else draw < share
    validation = ~test & (draw >= share) & (draw < share + plan.validation)
    taught, held = np.flatnonzero(~test & ~validation), np.flatnonzero(test)
    if not len(taught) or not len(held):
        raise PolicyError(
            f"of {len(ids)} rows {len(taught)} are for training and {len(held)} for test",
            "change [split], or bring more rows",
        )
    return taught, np.flatnonzero(validation), held
