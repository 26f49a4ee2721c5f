"""Empirical privacy: how large an ε the audit's hits and false alarms prove, at 95 % confidence.

A membership test with true positive rate TPR and false positive rate FPR against an (ε, δ) release
obeys TPR ≤ e^ε FPR + δ, and the same of its complement. Clopper-Pearson bounds of both rates give a
lower bound of ε; whatever is claimed must lie above it.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Floats = NDArray[np.float64]
Counts: TypeAlias = tuple[NDArray[np.int64], int]  # of every cut, and of how many


CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Tally:
    """What a test counted at a threshold that was fixed before: each trial is one of its own."""

    hits: int
    members: int
    alarms: int
    others: int

    def __add__(self, more: "Tally") -> "Tally":
        """Pool two tests, whose thresholds may differ: an (ε, δ) release binds the mean rates."""
        return Tally(
            self.hits + more.hits,
            self.members + more.members,
            self.alarms + more.alarms,
            self.others + more.others,
        )


@dataclass(frozen=True, slots=True)
class Audited:
    """A lower bound of ε, and how it was come by."""

    epsilon: float
    trials: tuple[int, int]  # members, others that were counted
    ceiling: float  # what a perfect attack with so many trials would prove
    confidence: float


def audited(tally: Tally, *, delta: float = 0.0, confidence: float = CONFIDENCE) -> Audited:
    """Bound ε from what was counted."""
    perfect = Tally(tally.members, tally.members, 0, tally.others)
    found, most = (
        float(
            _bound(_of(each.hits, each.members), _of(each.alarms, each.others), delta, confidence)
        )
        for each in (tally, perfect)
    )
    return Audited(found, (tally.members, tally.others), most, confidence)


def best_cut(
    members: Floats, others: Floats, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> float:
    """The threshold at which these scores prove most; it must be counted on others."""
    found = np.unique(np.concatenate([members, others]))
    cuts = (found[:-1] + found[1:]) / 2 if len(found) > 1 else found  # on no score: others are near
    proved = _bound(_hits(members, cuts), _hits(others, cuts), delta, confidence)
    return float(cuts[proved.argmax()])


def count(members: Floats, others: Floats, cut: float) -> Tally:
    """Count the scores above ``cut``."""
    return Tally(int((members > cut).sum()), len(members), int((others > cut).sum()), len(others))


def audited_epsilon(
    members: Floats, others: Floats, *, delta: float = 0.0, confidence: float = CONFIDENCE
) -> Audited:
    """Bound ε from scores that are larger for members, each of an independent trial.

    The threshold is chosen on the first half of the trials and counted on the second, so that the
    bound holds.

    Raises:
        ValueError: fewer than four trials on a side.
    """
    if min(len(members), len(others)) < 4:
        raise ValueError("an ε audit needs four members and four others at least")
    (teach_in, test_in), (teach_out, test_out) = (
        np.array_split(side, 2) for side in (members, others)
    )
    cut = best_cut(teach_in, teach_out, delta=delta, confidence=confidence)
    return audited(count(test_in, test_out, cut), delta=delta, confidence=confidence)


def _of(counted: int, trials: int) -> Counts:
    return np.array(counted), trials


def _hits(scores: Floats, cuts: Floats) -> Counts:
    """How many scores lie above each cut, and of how many."""
    return len(scores) - np.searchsorted(np.sort(scores), cuts, "right"), len(scores)


def _bound(hits: Counts, alarms: Counts, delta: float, confidence: float) -> Floats:
    """The larger of the bounds by the test and by its complement, at least 0, of every cut."""
    miss = (1 - confidence) / 2  # of either side of a rate's interval
    straight = _ratio(_low(*hits, miss), _high(*alarms, miss), delta)
    spared = (alarms[1] - alarms[0], alarms[1])
    missed = (hits[1] - hits[0], hits[1])
    mirrored = _ratio(_low(*spared, miss), _high(*missed, miss), delta)
    return np.maximum(0.0, np.maximum(straight, mirrored))


def _ratio(rates: Floats, others: Floats, delta: float) -> Floats:
    found: Floats = np.log(np.maximum(rates - delta, np.finfo(np.float64).tiny) / others)
    return found


def _low(counts: NDArray[np.int64], trials: int, miss: float) -> Floats:
    """Clopper-Pearson's lower bound of a rate."""
    found: Floats = beta.ppf(miss, np.maximum(counts, 1), trials - counts + 1)
    return np.where(counts > 0, found, 0.0)


def _high(counts: NDArray[np.int64], trials: int, miss: float) -> Floats:
    """Clopper-Pearson's upper bound of a rate."""
    found: Floats = beta.ppf(1 - miss, counts + 1, np.maximum(trials - counts, 1))
    return np.where(counts < trials, found, 1.0)
