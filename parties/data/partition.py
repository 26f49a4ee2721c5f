"""Partition of one data set among simulated clients: IID, pathological or by a Dirichlet draw.

Every client computes the whole partition and keeps its own part: equal seeds and labels give equal
parts.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation, torch_seed

TRIES = 1000  # largest number of Dirichlet draws until every client has enough rows


def iid_partition(labels: Index, clients: int, seed: int) -> list[Index]:
    """Return random parts of equal size: row indices ``[part]`` per client.

    ``labels`` are ``[rows]``.
    """
    order = permutation(derive_key(seed, "partition", "iid"), len(labels))
    return [np.sort(part) for part in np.array_split(order, clients)]


def pathological_partition(labels: Index, clients: int, share: float, seed: int) -> list[Index]:
    """Return parts with ``share`` of the classes each: row indices ``[part]`` per client.

    As in McMahan et al. 2017: the classes are assigned one after the other. Each class is split in
    equal parts among the first clients that still need a class. ``labels`` are ``[rows]``.

    Raises:
        PolicyError: there are more clients than classes can be assigned.
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
    """Return parts by Dirichlet class proportions (Hsu et al. 2019): row indices ``[part]`` each.

    Each class of ``labels`` ``[rows]`` is split in proportions from a Dirichlet distribution. Draws
    are repeated until every client has ``least`` rows.

    Raises:
        PolicyError: no draw of 1000 gives every client ``least`` rows.
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
        f"in each of {TRIES} draws a client has fewer than {least} of {len(labels)} rows",
        "choose a larger concentration, fewer clients, or a smaller partition.min_rows",
    )


def _cuts(shares: NDArray[np.float64], rows: int) -> Index:
    return (shares.cumsum()[:-1] * rows).round().astype(np.int64)


def _join_parts(parts: Sequence[Sequence[Index]]) -> list[Index]:
    if not all(sum(map(len, part)) for part in parts):
        raise PolicyError(
            "more clients than classes can be assigned: a client would have no row",
            "choose fewer clients, or a larger share of the classes",
        )
    return [np.sort(np.concatenate(part)) for part in parts]
