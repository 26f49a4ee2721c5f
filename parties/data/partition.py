"""Partition of one data set among simulated clients: IID, pathological or Dirichlet.

Every client computes which rows each client gets, and keeps only its own rows. All clients compute
the same partition, because they use the same seed and labels.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation, torch_seed

TRIES = 1000  # largest number of sampled Dirichlet partitions


def iid_partition(labels: Index, clients: int, seed: int) -> list[Index]:
    """Return each client's row indices, ``[part]``; the rows are split at random into equal parts.

    ``labels`` has shape ``[rows]``.
    """
    order = permutation(derive_key(seed, "partition", "iid"), len(labels))
    return [np.sort(part) for part in np.array_split(order, clients)]


def class_holders(classes: int, clients: int, share: float) -> list[Index]:
    """Return the clients that hold each class in a pathological partition, ``[holders]`` by class.

    ``share`` is the fraction of the classes that each client gets. The classes are assigned one
    after the other, as in McMahan et al. 2017: each class goes to the first clients that do not
    have all their classes yet. A class that comes after every client has all its classes has no
    holder.
    """
    per_client = max(1, round(share * classes))
    most, missing = ceil(clients * per_client / classes), np.full(clients, per_client)
    holders = []
    for _ in range(classes):
        holders.append(np.flatnonzero(missing > 0)[:most])
        missing[holders[-1]] -= 1
    return holders


def pathological_partition(
    labels: Index, classes: int, clients: int, share: float, seed: int
) -> list[Index]:
    """Return each client's row indices, ``[part]``; each client has rows of only some classes.

    Each class is split into equal parts, one for each of its ``class_holders``. The rows of a class
    without a holder belong to no client. ``labels``, ``[rows]``, are numbers below ``classes``.

    Raises:
        PolicyError: there are too few classes, so that a client would have no rows.
    """
    parts = [list[Index]() for _ in range(clients)]
    for label, holders in enumerate(class_holders(classes, clients, share)):
        if not len(holders):
            continue
        rows = np.flatnonzero(labels == label)
        rows = rows[permutation(derive_key(seed, "partition", "class", label), len(rows))]
        for client, part in zip(holders, np.array_split(rows, len(holders)), strict=True):
            parts[client].append(part)
    return _join_parts(parts)


def dirichlet_partition(
    labels: Index,
    clients: int,
    concentration: float,
    least: int,
    seed: int,
    *,
    balanced: bool = False,
) -> list[Index]:
    """Return each client's row indices, ``[part]``, sampled with a Dirichlet distribution.

    The rows of each class in ``labels`` ``[rows]`` are split among the clients in proportions
    sampled from a Dirichlet distribution (Hsu et al. 2019). If ``balanced`` is set, no client gets
    more than its equal part of all rows. Sampling is repeated until every client has at least
    ``least`` rows.

    Raises:
        PolicyError: none of 1000 sampled partitions gives every client ``least`` rows.
    """
    generator = np.random.default_rng(torch_seed(seed, "partition", "dirichlet"))
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    equal = np.array([len(part) for part in np.array_split(labels, clients)])
    for _ in range(TRIES):
        parts = [list[Index]() for _ in range(clients)]
        for rows in classes:
            shares = generator.dirichlet(np.full(clients, concentration))
            room = equal - _sizes(parts) if balanced else None
            cuts = _counts(shares, len(rows), room).cumsum()[:-1]
            for client, part in enumerate(np.split(generator.permutation(rows), cuts)):
                parts[client].append(part)
        if _sizes(parts).min() >= least:
            return _join_parts(parts)
    raise PolicyError(
        f"none of {TRIES} sampled partitions of {len(labels)} rows gives every client {least} rows",
        "increase partition.concentration, use fewer clients, or reduce partition.min_rows",
    )


def _counts(shares: NDArray[np.float64], rows: int, room: Index | None = None) -> Index:
    """The rows of a class that each client gets, ``[clients]``; at most ``room``, if given."""
    if room is None:
        cuts = (shares.cumsum()[:-1] * rows).round().astype(np.int64)
        return np.diff(cuts, prepend=0, append=rows)
    # As in PFLlib, a client without room has the share 0, and the other shares grow. Unlike there,
    # a client whose share exceeds its room gets its room only, and the rest is split again.
    counts = np.zeros_like(room)
    while rest := rows - int(counts.sum()):
        free = np.where(counts < room, shares, 0.0)
        free = free if free.any() else (counts < room).astype(np.float64)
        counts += np.minimum(_counts(free / free.sum(), rest), room - counts)
    return counts


def _sizes(parts: Sequence[Sequence[Index]]) -> Index:
    return np.array([sum(map(len, part)) for part in parts])


def _join_parts(parts: Sequence[Sequence[Index]]) -> list[Index]:
    if not _sizes(parts).all():
        raise PolicyError(
            "the partition leaves a client without rows: the data has too few classes for so many "
            "clients",
            "use fewer clients, or increase partition.share, the fraction of the classes per "
            "client",
        )
    return [np.sort(np.concatenate(part)) for part in parts]
