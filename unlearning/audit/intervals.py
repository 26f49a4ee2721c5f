"""95 % confidence intervals over rows, for a fraction of rows, a mean and an AUC."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True, slots=True)
class ConfidenceInterval:
    """A value with its 95 % bootstrap confidence interval and the number of resampled items."""

    value: float
    low: float
    high: float
    n: int


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


def auc_interval(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    """Return the confidence interval, inside [0, 1], of ``auc``.

    ``positives`` and ``negatives`` are the numbers of rows in the two groups.
    """
    # Hanley and McNeil (Radiology 1982): variance = (A(1 − A) + (n₊ − 1)(Q₁ − A²)
    # + (n₋ − 1)(Q₂ − A²)) / (n₊ n₋), Q₁ = A/(2 − A), Q₂ = 2A²/(1 + A).
    q1, q2, square = auc / (2 - auc), 2 * auc * auc / (1 + auc), auc * auc
    ours, theirs = (positives - 1) * (q1 - square), (negatives - 1) * (q2 - square)
    variance = (auc * (1 - auc) + ours + theirs) / (positives * negatives)
    half = Z * sqrt(max(0.0, variance))
    return max(0.0, auc - half), min(1.0, auc + half)


def auc_chance_error(positives: int, negatives: int) -> float:
    """Return the standard error of an AUC if both groups have the same distribution."""
    # Mann and Whitney 1947: √((n₊ + n₋ + 1) / (12 n₊ n₋)).
    return sqrt((positives + negatives + 1) / (12 * positives * negatives))
