"""A client's data: read from its source, partitioned among clients, split into train and test."""

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from configs.horizontal import ClientRequest, Dirichlet, HorizontalAgreement, Iid, Pathological
from parties.common.errors import DataError, PolicyError
from parties.common.shared_randomness import Index, derive_key, id_fractions, permutation
from parties.data.agreed_columns import agreed_data, read_agreed
from parties.data.holding import Holding
from parties.data.partition import (
    class_holders,
    dirichlet_partition,
    iid_partition,
    pathological_partition,
)
from parties.data.preprocess import declared_preprocessing
from parties.data.sources.arrays import Mask, Progress
from parties.data.sources.source import DataSettings, ReadOptions
from parties.horizontal.local.rows import ClientData, OwnRows, Rows, indices_of


@dataclass(frozen=True, slots=True, repr=False)
class PartitionedData:
    """A data set and its partition among the clients.

    ``repr`` shows no fields, because rows are personal data.
    """

    ids: Sequence[bytes]  # IDs of all rows
    in_test: Mask  # whether a row belongs to the official test set, ``[rows]``
    rows: Rows  # all rows
    parts: list[Index]  # indices of the rows of each client, in the agreement's order of clients


def read_client_data(
    agreement: HorizontalAgreement, name: str, data: DataSettings, folder: Path, progress: Progress
) -> ClientData:
    """Read the rows of one client.

    Raises:
        DataError: the data cannot be used, or does not have the agreed shape.
        PolicyError: the data cannot be partitioned or split as agreed.
    """
    data_set = read_partitioned_data(agreement, name, data, folder, progress)
    return client_data_of(agreement, name, data_set)


def read_partitioned_data(
    agreement: HorizontalAgreement, name: str, data: DataSettings, folder: Path, progress: Progress
) -> PartitionedData:
    """Read one client's own data set, or the common data set that is partitioned among the clients.

    ``name`` is the client whose settings name the data.

    Raises:
        DataError: the data cannot be used, or does not have the agreed shape.
        PolicyError: the data cannot be partitioned as agreed.
    """
    data = agreed_data(agreement.columns, data, name)
    holding = read_agreed(
        agreement.columns,
        data,
        name,
        ReadOptions(folder, agreement.labels.classes, progress),
        labelled=True,
        # One client may lack a class that another client has.
        several_classes=agreement.partition.kind != "own",
    )
    if holding.times is not None:
        raise DataError(
            "data.time names a column with dates, but with a server no split uses dates",
            "remove data.time",
        )
    if holding.weights is not None:
        raise DataError(
            "data.weight names a column with weights of the rows, which only the vertical mode has",
            "remove data.weight",
        )
    rows = _rows(holding, data, agreement.shape)
    return PartitionedData(
        holding.ids, holding.in_test, rows, partition_by_client(agreement, rows.labels.numpy())
    )


def client_data_of(
    agreement: HorizontalAgreement, name: str, data_set: PartitionedData
) -> ClientData:
    """Return one client's part of a data set, split into training, validation and test rows.

    Raises:
        PolicyError: the part cannot be split as agreed.
    """
    ours = data_set.parts[agreement.spokes.index(name)]
    ids = [data_set.ids[row] for row in ours]
    parts = _split(agreement, ids, data_set.in_test[ours])
    train, validation, test = (data_set.rows.take(ours[part]) for part in parts)
    trained = [ids[at] for at in parts[0]]
    return ClientData(train, test, validation=validation, ids=trained)


def read_own_rows(
    agreement: HorizontalAgreement, name: str, data: DataSettings, folder: Path
) -> OwnRows:
    """Return the rows of one client, by ID and by number.

    A number is the one in the ID of a row without ID columns, in the file of the training rows.

    Raises:
        DataError: the data cannot be used, or does not have the agreed shape.
        PolicyError: the data cannot be partitioned or split as agreed.
    """
    data_set = read_partitioned_data(agreement, name, data, folder, lambda _: None)
    ours = data_set.parts[agreement.spokes.index(name)]
    numbers = dict[int, bytes]()
    if data.id == "row":
        first = [data_set.ids[row] for row in ours if not data_set.in_test[row]]
        numbers = {int(each.rpartition(b":")[2]): each for each in first}
    held = frozenset(data_set.ids[row] for row in ours)
    return OwnRows(held, Counter(client_data_of(agreement, name, data_set).ids), numbers)


def partition_by_client(agreement: HorizontalAgreement, labels: Index) -> list[Index]:
    """Return one array of row indices per client, ``[rows of the client]``.

    ``labels`` are the classes of all rows, ``[rows]``. With the partition "own", each client keeps
    all rows of the client's data set.
    """
    clients, seed = len(agreement.spokes), agreement.seed
    match agreement.partition:
        case Iid():
            return iid_partition(labels, clients, seed)
        case Pathological(share=share):
            classes = len(agreement.labels.classes)
            return pathological_partition(labels, classes, clients, share, seed)
        case Dirichlet(concentration=concentration, min_rows=least, balanced=balanced):
            return dirichlet_partition(
                labels, clients, concentration, least, seed, balanced=balanced
            )
        case _:
            return [np.arange(len(labels))] * clients


def left_out_classes(agreement: HorizontalAgreement) -> tuple[str, ...]:
    """Return the classes whose rows the agreed partition gives to no client."""
    if not isinstance(agreement.partition, Pathological):
        return ()
    classes = agreement.labels.classes
    holders = class_holders(len(classes), len(agreement.spokes), agreement.partition.share)
    return tuple(name for name, each in zip(classes, holders, strict=True) if not len(each))


def requested_rows(
    agreement: HorizontalAgreement,
    request: ClientRequest,
    name: str,
    client_data: ClientData,
    listed: Container[bytes] | None = None,
) -> Index:
    """Return the indices of the client's training rows that a request names, ``[requested]``.

    The indices are sorted. ``listed`` are the IDs of the rows, if they are known; None selects them
    by class and fraction.
    """
    if request.client not in (None, name):
        return np.empty(0, np.int64)
    if listed is not None or request.has_list:
        return indices_of(client_data.ids, () if listed is None else listed)
    labels = client_data.train.labels.numpy()
    classes = [agreement.labels.classes.index(each) for each in request.classes]
    named = np.flatnonzero(np.isin(labels, classes)) if classes else np.arange(len(labels))
    order = permutation(
        derive_key(agreement.seed, "request", request.name, request.seed, name), len(named)
    )
    return np.sort(named[order[: round(request.fraction * len(named))]])


def _rows(holding: Holding, data: DataSettings, shape: Sequence[int]) -> Rows:
    if holding.labels is None:
        raise DataError(
            "the client's data has no labels, but clients need labels for training",
            "set data.label in the party settings",
        )
    return Rows(
        network_inputs(holding, data, shape), torch.from_numpy(holding.labels.astype(np.int64))
    )


def network_inputs(holding: Holding, data: DataSettings, shape: Sequence[int]) -> Tensor:
    """Return all rows as inputs of the network, ``[rows, *shape]``.

    Raises:
        DataError: the rows do not have the agreed shape.
    """
    if holding.images is not None:
        values = np.asarray(holding.images, np.float32)
    else:
        found = declared_preprocessing(holding, data).transform(holding, np.arange(len(holding)))
        values = np.asarray(found, np.float32)
    if values.shape[1:] != tuple(shape):
        raise DataError(
            f"the rows of the data have the shape {list(values.shape[1:])}, but the agreement has "
            f"shape = {list(shape)}",
            "give every client the same columns, or change the key 'shape' in the agreement",
        )
    return torch.from_numpy(values)


def _split(
    agreement: HorizontalAgreement, ids: list[bytes], in_test: Mask
) -> tuple[Index, Index, Index]:
    """Indices of the training rows, the validation rows and the test rows."""
    plan, draw = agreement.split, id_fractions(derive_key(agreement.seed, "split"), ids)
    share = 0.0 if plan.kind == "official" else (plan.test or 0.0)
    test = in_test if plan.kind == "official" else draw < share
    validation = ~test & (draw >= share) & (draw < share + plan.validation)
    train_rows, test_rows = np.flatnonzero(~test & ~validation), np.flatnonzero(test)
    if not len(train_rows) or not len(test_rows):
        raise PolicyError(
            f"the split of {len(ids)} rows leaves {len(train_rows)} training rows and "
            f"{len(test_rows)} test rows; each set needs at least one row",
            "change the table [split] of the agreement, or use more rows",
        )
    return train_rows, np.flatnonzero(validation), test_rows
