"""95 % confidence intervals over rows, and limits for one further value of a few models.

The intervals over rows are for a fraction of rows, a mean and an AUC. The limits are prediction
limits: models without a fault exceed the upper limit in a fraction ``RATE`` of all runs, however
few models the limit is computed from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution
RATE = 0.025  # fraction of models without a fault that exceed an upper limit
_ROUNDING = 1e-9  # an AUC this close to 0 or 1 is 0 or 1


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A value with its 95 % bootstrap confidence interval and the number of resampled items."""

    value: float
    low: float
    high: float
    n: int

    @property
    def margin(self) -> float:
        """How far the farther end lies from the value; an end at 0 or 1 is cut off there."""
        return max(self.value - self.low, self.high - self.value)


def share_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the confidence interval, inside [0, 1], of the fraction ``successes`` / ``n``."""
    # Wilson 1927: (p + Z²/2n ± Z √(p(1 − p)/n + Z²/4n²)) / (1 + Z²/n), with z = Z²/n below.
    p, z = successes / n, Z * Z / n
    centre, half = p + z / 2, Z * sqrt(p * (1 - p) / n + z / (4 * n))
    return max(0.0, (centre - half) / (1 + z)), min(1.0, (centre + half) / (1 + z))


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the confidence interval of the mean of ``values``, ``[n]``; None for one value."""
    if len(values) < 2:
        return None
    mean, half = float(values.mean()), Z * float(values.std(ddof=1)) / sqrt(len(values))
    return mean - half, mean + half


def seed_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of Student's t for the mean of one value per seed, two or more.

    Raises:
        ValueError: there are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError(f"an interval over seeds needs 2 or more seeds (got {len(values)})")
    half = float(stdtrit(len(values) - 1, 0.975)) * stdev(values) / sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def auc_interval(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    """Return the confidence interval, inside [0, 1], of ``auc``.

    ``positives`` and ``negatives`` are the numbers of rows in the two groups.
    """
    half = Z * sqrt(auc_variance(auc, positives, negatives))
    return max(0.0, auc - half), min(1.0, auc + half)


def auc_variance(auc: float, positives: int, negatives: int) -> float:
    """Return the variance of an AUC whose expected value is ``auc``.

    ``positives`` and ``negatives`` are the numbers of rows in the two groups. For an AUC of 0 or 1
    the result is the variance if both groups have the same distribution: the formula gives 0 there,
    even for one row in each group.
    """
    if min(auc, 1 - auc) <= _ROUNDING:
        return auc_chance_error(positives, negatives) ** 2
    # Hanley and McNeil (Radiology 1982): variance = (A(1 − A) + (n₊ − 1)(Q₁ − A²)
    # + (n₋ − 1)(Q₂ − A²)) / (n₊ n₋), Q₁ = A/(2 − A), Q₂ = 2A²/(1 + A).
    q1, q2, square = auc / (2 - auc), 2 * auc * auc / (1 + auc), auc * auc
    ours, theirs = (positives - 1) * (q1 - square), (negatives - 1) * (q2 - square)
    return max(0.0, (auc * (1 - auc) + ours + theirs) / (positives * negatives))


def auc_chance_error(positives: int, negatives: int) -> float:
    """Return the standard error of an AUC if both groups have the same distribution."""
    # Mann and Whitney 1947: √((n₊ + n₋ + 1) / (12 n₊ n₋)).
    return sqrt((positives + negatives + 1) / (12 * positives * negatives))


def further_value_margin(spread: float, models: int) -> float:
    """Return how far the value of one further model may lie above the mean of ``models`` models.

    ``spread`` is the standard deviation over the models, of which there are at least two. If the
    further model and the models have the same normal distribution, the value exceeds mean plus
    margin with probability ``RATE``. The same holds for values below mean minus margin.
    """
    # Prediction interval of one further draw: t_(n - 1) s √(1 + 1/n).
    return float(stdtrit(models - 1, 1 - RATE)) * spread * sqrt(1 + 1 / models)


def further_value_limit(values: Sequence[float]) -> float:
    """Return the limit that one further value exceeds with probability ``RATE``.

    ``values`` are the values of at least two models, ``[models]``.
    """
    return fmean(values) + further_value_margin(stdev(values), len(values))


def difference_margin(spread: float, models: int) -> float:
    """Return how far the value of one model may lie above the value of another model.

    ``spread`` is the standard deviation over ``models`` models, of which there are at least two. If
    all models have the same normal distribution, a difference exceeds the margin with probability
    ``RATE``.
    """
    return float(stdtrit(models - 1, 1 - RATE)) * spread * sqrt(2)


def distance_spread(means: Sequence[float]) -> float | None:
    """Return the standard deviation over models of one model's part of its distances.

    ``means`` is the mean distance of each model from all other models of the group, ``[models]``.
    The distances of a further model from the group have the mean of ``means`` and this spread. The
    result is None for fewer than three models, whose distances do not show the part of one model.
    """
    n = len(means)
    if n < 3:
        return None
    # With d_ij = μ + a_i + a_j, the mean distance of model i is (n − 2)/(n − 1) a_i + a constant.
    return stdev(means) * (n - 1) / (n - 2)
