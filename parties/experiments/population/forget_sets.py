"""Forget sets of N runs: each run trains on, then forgets, a random half of the same rows."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from configs.agreement import RowRequest
from parties.common.errors import PolicyError
from parties.common.shared_randomness import Index, derive_key, permutation
from parties.experiments.population.pooled_data import PooledData, rows_of_classes
from parties.vertical.engine.rows import RowSets
from unlearning.audit.lira import MIN_RUNS


@dataclass(frozen=True, slots=True)
class ForgetSet:
    """The rows on which each run of one population is trained, and which it then forgets."""

    pooled: PooledData  # the pooled data; canaries have a wrong label in every run
    # Rows, ``[pool]``; a run is trained on one half of these rows and forgets this half, and is
    # never trained on the other half.
    pool: Index
    # Whether each run is trained on each row of the pool, ``[N, pool]``; runs 2k and 2k + 1 are
    # trained on complementary halves.
    learned: NDArray[np.bool_]
    always: Index  # rows outside the pool; every run is trained on these rows and then forgets them
    retain: Index  # D_r of every run

    def rows(self, run: int) -> RowSets:
        """Return the row sets of one run."""
        forgotten = np.sort(np.concatenate([self.always, self.pool[self.learned[run]]]))
        learn = np.union1d(self.retain, forgotten)
        return replace(self.pooled.rows, train=learn, forgotten=forgotten)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.learned)


def draw_forget_sets(pooled: PooledData, request: RowRequest, runs: int) -> ForgetSet:
    """Sample the rows that each run forgets, for a request that names classes.

    With canaries, the pool has twice as many rows as there are canaries. All rows of the pool have
    a wrong label, and each run is trained on half of the pool. Every run is trained on the other
    rows of the request, and then forgets those rows.

    Raises:
        PolicyError: the request names no classes or too few rows, or there are too few runs.
    """
    if not request.classes:
        raise PolicyError(
            f"the forget request {request.name!r} has no key 'classes'",
            "use a request with the key 'classes': a population chooses the forgotten rows at "
            "random among all rows of these classes",
        )
    if runs % 2 or runs < 2 * MIN_RUNS:
        raise PolicyError(
            f"a population has {runs} runs; expected an even number of at least {2 * MIN_RUNS}"
        )
    secret = derive_key(pooled.agreement.seed, "population", request.name, request.seed)
    requested = rows_of_classes(pooled, request)
    requested = requested[permutation(secret, len(requested))]
    size = 2 * request.canaries or len(requested) // 2 * 2
    if not 2 <= size <= len(requested):
        raise PolicyError(
            f"the forget request {request.name!r} names {len(requested)} rows; expected at least "
            f"{max(2, size)}"
        )
    pool, always = requested[:size], np.sort(requested[size:])
    labels = pooled.labels.clone()
    if request.canaries:
        labels[pool] = (labels[pool] + 1) % len(pooled.agreement.labels.classes)
    return ForgetSet(
        pooled=replace(pooled, labels=labels),
        pool=pool,
        learned=_random_halves(secret, size, runs),
        always=always,
        retain=np.setdiff1d(pooled.rows.train, requested),
    )


def draw_triggered(pooled: PooledData, runs: int) -> ForgetSet:
    """Return the rows of runs that learn a trigger, and then forget the rows with the trigger.

    All runs are trained on the same rows.

    Raises:
        PolicyError: the first request of the agreement has no backdoor.
    """
    trigger = pooled.trigger
    if trigger is None:
        raise PolicyError(
            "the models that measure triggers have no trigger",
            "give the first request of the population's changes a backdoor",
        )
    requested = rows_of_classes(pooled, pooled.agreement.unlearn[0])
    labels, inputs = pooled.labels.clone(), dict(pooled.inputs)
    labels[trigger.rows] = trigger.target
    inputs[trigger.party] = inputs[trigger.party].clone()
    inputs[trigger.party][trigger.rows] = trigger.stamped[trigger.rows]
    return ForgetSet(
        pooled=replace(pooled, labels=labels, inputs=inputs),
        pool=np.empty(0, np.int64),
        learned=np.empty((runs, 0), np.bool_),
        always=requested,
        retain=np.setdiff1d(pooled.rows.train, requested),
    )


def _random_halves(secret: bytes, size: int, runs: int) -> NDArray[np.bool_]:
    learned = np.zeros((runs, size), np.bool_)
    for pair in range(runs // 2):
        inner = derive_key(int.from_bytes(secret[:7], "big"), "half", pair)
        learned[2 * pair, permutation(inner, size)[: size // 2]] = True
        learned[2 * pair + 1] = ~learned[2 * pair]
    return learned
