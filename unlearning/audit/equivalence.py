"""Equivalence: two one-sided tests that a method's figure is within a margin of Retrain's.

The only test here that can speak for a method. Its unit is the standard deviation between Retrains,
and its n the independent runs; rows are no runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import fmean, stdev, variance

from scipy.stats import t as student

LEVEL = 0.05
# z(.95) + z(.90): level 5 %, power 80 % at a true difference of 0, where both tests must reject.
_WANTED = 2.926


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What two one-sided tests found."""

    difference: float  # of the means
    margin: float
    p: float  # the larger of the two
    runs: int  # of the smaller arm
    needed: int  # of each arm, for a power of 80 %

    @property
    def shown(self) -> bool:
        """Whether the two are equivalent at 5 %; False is not a difference."""
        return self.p < LEVEL


def needed_runs(margin: float) -> int:
    """Runs of each arm that show equivalence within ``margin`` standard deviations, power 80 %."""
    return ceil(2 * (_WANTED / margin) ** 2)


def equivalence(
    ours: Sequence[float], retrains: Sequence[float], margin: float = 1.0
) -> Equivalence:
    """TOST (Schuirmann 1987) with Welch's t; ``margin`` in standard deviations of the Retrains.

    Raises:
        ValueError: fewer than two runs in an arm, or runs that do not differ, so that there is no
            unit.
    """
    if min(len(ours), len(retrains)) < 2 or not stdev(retrains):
        raise ValueError("equivalence needs 2 or more runs in each arm, and Retrains that differ")
    bound, difference = margin * stdev(retrains), fmean(ours) - fmean(retrains)
    a, b = variance(ours) / len(ours), variance(retrains) / len(retrains)
    # Welch's degrees of freedom.
    degrees = (a + b) ** 2 / (a * a / (len(ours) - 1) + b * b / (len(retrains) - 1))
    nearer = (bound - abs(difference)) / sqrt(a + b)
    p = float(student.sf(nearer, degrees))
    return Equivalence(difference, bound, p, min(len(ours), len(retrains)), needed_runs(margin))
