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


def pathological_partition(labels: Index, clients: int, share: float, seed: int) -> list[Index]:
    """Return each client's row indices, ``[part]``; each client has rows of only some classes.

    ``share`` is the fraction of the classes that each client gets. The classes are assigned one
    after the other, as in McMahan et al. 2017: each class is split into equal parts, which go to
    the first clients that do not have all their classes yet. ``labels`` has shape ``[rows]``.

    Raises:
        PolicyError: there are too few classes, so that a client would have no rows.
    """
    classes = np.unique(labels)
    per_client = max(1, round(share * len(classes)))
    holders = ceil(clients * per_client / len(classes))
    missing, parts = np.full(clients, per_client), [list[Index]() for _ in range(clients)]
    for label in classes:
        chosen = np.flatnonzero(missing > 0)[:holders]
        if not len(chosen):
            break
        rows = np.flatnonzero(labels == label)
        rows = rows[permutation(derive_key(seed, "partition", "class", int(label)), len(rows))]
        for client, part in zip(chosen, np.array_split(rows, len(chosen)), strict=True):
            parts[client].append(part)
            missing[client] -= 1
    return _join_parts(parts)


def dirichlet_partition(
    labels: Index, clients: int, concentration: float, least: int, seed: int
) -> list[Index]:
    """Return each client's row indices, ``[part]``, sampled with a Dirichlet distribution.

    The rows of each class in ``labels`` ``[rows]`` are split among the clients in proportions
    sampled from a Dirichlet distribution (Hsu et al. 2019). Sampling is repeated until every client
    has at least ``least`` rows.

    Raises:
        PolicyError: none of 1000 sampled partitions gives every client ``least`` rows.
    """
    generator = np.random.default_rng(torch_seed(seed, "partition", "dirichlet"))
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(TRIES):
        parts = [list[Index]() for _ in range(clients)]
        for rows in classes:
            cuts = _cuts(generator.dirichlet(np.full(clients, concentration)), len(rows))
            for client, part in enumerate(np.split(generator.permutation(rows), cuts)):
                parts[client].append(part)
        if min(sum(map(len, part)) for part in parts) >= least:
            return _join_parts(parts)
    raise PolicyError(
        f"none of {TRIES} sampled partitions of {len(labels)} rows gives every client {least} rows",
        "increase partition.concentration, use fewer clients, or reduce partition.min_rows",
    )


def _cuts(shares: NDArray[np.float64], rows: int) -> Index:
    return (shares.cumsum()[:-1] * rows).round().astype(np.int64)


def _join_parts(parts: Sequence[Sequence[Index]]) -> list[Index]:
    if not all(sum(map(len, part)) for part in parts):
        raise PolicyError(
            "the partition leaves a client without rows: the data has too few classes for so many "
            "clients",
            "use fewer clients, or increase partition.share, the fraction of the classes per "
            "client",
        )
    return [np.sort(np.concatenate(part)) for part in parts]
