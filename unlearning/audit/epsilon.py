"""Empirical privacy: lower bound of ε (95 % confidence) from the success of an attack.

An (ε, δ)-private release limits every membership test: the true and false positive rates of a test
satisfy TPR ≤ e^ε FPR + δ. The rates of the test with reversed answers satisfy the same inequality.
Clopper-Pearson bounds of the two rates give a lower bound of ε. A certified ε must not be smaller
than this empirical lower bound.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Floats = NDArray[np.float64]
Counts: TypeAlias = tuple[NDArray[np.int64], int]  # successes at each threshold, trials


CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class AttackCounts:
    """Hits and false alarms of an attack in independent trials, at a threshold fixed in advance."""

    hits: int
    members: int
    alarms: int
    others: int

    def __add__(self, more: "AttackCounts") -> "AttackCounts":
        """Return the counts of two tests together.

        Their thresholds may differ, because an (ε, δ) release limits the mean rates as well.
        """
        return AttackCounts(
            self.hits + more.hits,
            self.members + more.members,
            self.alarms + more.alarms,
            self.others + more.others,
        )


@dataclass(frozen=True, slots=True)
class EpsilonBound:
    """A lower bound of ε, and the numbers of trials from which the bound was computed."""

    epsilon: float
    trials: tuple[int, int]  # members and others that were counted
    ceiling: float  # the bound that a perfect attack would reach with these trials
    confidence: float


def epsilon_bound(
    counts: AttackCounts, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> EpsilonBound:
    """Return the lower bound of ε that follows from the counts of an attack."""
    perfect = AttackCounts(counts.members, counts.members, 0, counts.others)
    found, ceiling = (
        float(
            _lower_epsilon(
                _single(each.hits, each.members),
                _single(each.alarms, each.others),
                delta,
                confidence,
            )
        )
        for each in (counts, perfect)
    )
    return EpsilonBound(found, (counts.members, counts.others), ceiling, confidence)


def best_threshold(
    members: Floats, others: Floats, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """Return the threshold that gives the largest lower bound of ε for the scores of an attack.

    ``members`` and ``others`` are the scores of the two groups, ``[trials]`` each. The bound of ε
    must be computed from trials that were not used to choose the threshold.
    """
    found = np.unique(np.concatenate([members, others]))
    # Between two scores, not on one: the scores of other trials may be near.
    cuts = (found[:-1] + found[1:]) / 2 if len(found) > 1 else found
    bounds = _lower_epsilon(
        _counts_above(members, cuts), _counts_above(others, cuts), delta, confidence
    )
    return float(cuts[bounds.argmax()])


def count_above(members: Floats, others: Floats, threshold: float) -> AttackCounts:
    """Return the number of scores above ``threshold`` in each group.

    ``members`` and ``others`` are the scores of the two groups, ``[trials]`` each.
    """
    return AttackCounts(
        int((members > threshold).sum()),
        len(members),
        int((others > threshold).sum()),
        len(others),
    )


def _single(successes: int, trials: int) -> Counts:
    return np.array(successes), trials


def _counts_above(scores: Floats, cuts: Floats) -> Counts:
    """Return the number of scores above each threshold, and the number of scores."""
    return len(scores) - np.searchsorted(np.sort(scores), cuts, "right"), len(scores)


def _lower_epsilon(hits: Counts, alarms: Counts, delta: float, confidence: float) -> Floats:
    """Return the larger bound of the test and of its complement, at least 0, per threshold."""
    # Kairouz et al. 2015 (arXiv 1311.0776): TPR ≤ e^ε FPR + δ, and 1 − FPR ≤ e^ε (1 − TPR) + δ.
    miss = (1 - confidence) / 2  # at either end of a rate's interval
    direct = _log_ratio(_lower_rate(*hits, miss), _upper_rate(*alarms, miss), delta)
    spared = (alarms[1] - alarms[0], alarms[1])
    missed = (hits[1] - hits[0], hits[1])
    complement = _log_ratio(_lower_rate(*spared, miss), _upper_rate(*missed, miss), delta)
    return np.maximum(0.0, np.maximum(direct, complement))


def _log_ratio(rates: Floats, others: Floats, delta: float) -> Floats:
    ratios: Floats = np.log(np.maximum(rates - delta, np.finfo(np.float64).tiny) / others)
    return ratios


def _lower_rate(counts: NDArray[np.int64], trials: int, miss: float) -> Floats:
    """Return the lower bound of a rate by Clopper and Pearson 1934."""
    bounds: Floats = beta.ppf(miss, np.maximum(counts, 1), trials - counts + 1)
    return np.where(counts > 0, bounds, 0.0)


def _upper_rate(counts: NDArray[np.int64], trials: int, miss: float) -> Floats:
    """Return the upper bound of a rate by Clopper and Pearson 1934."""
    bounds: Floats = beta.ppf(1 - miss, counts + 1, np.maximum(trials - counts, 1))
    return np.where(counts < trials, bounds, 1.0)
