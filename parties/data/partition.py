"""Who holds which rows, where one data set is dealt to simulated clients.

Every client deals by itself and keeps its own part: the same seed and labels give the same parts.
"""

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation, torch_seed

TRIES = 1000  # draws of a Dirichlet partition until every client has enough rows


def iid_partition(labels: Index, clients: int, seed: int) -> list[Index]:
    """Equal parts at random."""
    order = permutation(derive_key(seed, "partition", "iid"), len(labels))
    return [np.sort(part) for part in np.array_split(order, clients)]


def pathological_partition(labels: Index, clients: int, share: float, seed: int) -> list[Index]:
    """Every client holds ``share`` of the classes; each class goes to the first that lack some.

    As in McMahan et al. 2017 and the programs after it: classes are dealt one after the other, each
    in equal parts, to so many clients that all get their number.

    Raises:
        PolicyError: so few classes cannot be dealt to so many clients.
    """
    classes = np.unique(labels)
    each = max(1, round(share * len(classes)))
    holders = ceil(clients * each / len(classes))
    wanted, parts = np.full(clients, each), [list[Index]() for _ in range(clients)]
    for label in classes:
        chosen = np.flatnonzero(wanted > 0)[:holders]
        if not len(chosen):
            break
        rows = np.flatnonzero(labels == label)
        rows = rows[permutation(derive_key(seed, "partition", "class", int(label)), len(rows))]
        for client, part in zip(chosen, np.array_split(rows, len(chosen)), strict=True):
            parts[client].append(part)
            wanted[client] -= 1
    return _whole(parts)


def dirichlet_partition(
    labels: Index, clients: int, concentration: float, least: int, seed: int
) -> list[Index]:
    """Each class is dealt in proportions drawn from a Dirichlet distribution (Hsu et al. 2019).

    Raises:
        PolicyError: no draw in a thousand leaves every client ``least`` rows.
    """
    generator = np.random.default_rng(torch_seed(seed, "partition", "dirichlet"))
    classes = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    for _ in range(TRIES):
        parts = [list[Index]() for _ in range(clients)]
        for rows in classes:
            cuts = _cuts(generator.dirichlet(np.full(clients, concentration)), len(rows))
            dealt = np.split(generator.permutation(rows), cuts)
            for client, part in enumerate(dealt):
                parts[client].append(part)
        if min(sum(map(len, part)) for part in parts) >= least:
            return _whole(parts)
    raise PolicyError(
        f"{TRIES} draws left some client with fewer than {least} of {len(labels)} rows",
        "a larger concentration, fewer clients, or a smaller partition.min_rows",
    )


def _cuts(shares: NDArray[np.float64], rows: int) -> Index:
    return (shares.cumsum()[:-1] * rows).round().astype(np.int64)


def _whole(parts: Sequence[Sequence[Index]]) -> list[Index]:
    if not all(sum(map(len, part)) for part in parts):
        raise PolicyError(
            "the classes do not go round: some client would hold nothing",
            "fewer clients, or a larger share of the classes",
        )
    return [np.sort(np.concatenate(part)) for part in parts]
