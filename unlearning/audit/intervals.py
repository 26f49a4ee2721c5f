"""95 % intervals over rows: of a share, of a mean, and of an AUC."""

from math import sqrt

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution


def of_share(successes: int, n: int) -> tuple[float, float]:
    """The interval of ``successes`` out of ``n`` (Wilson 1927), inside [0, 1] even for none."""
    p, z = successes / n, Z * Z / n
    centre, half = p + z / 2, Z * sqrt(p * (1 - p) / n + z / (4 * n))
    return max(0.0, (centre - half) / (1 + z)), min(1.0, (centre + half) / (1 + z))


def of_mean(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Mean ± z standard errors; None for a single value."""
    if len(values) < 2:
        return None
    mean, half = float(values.mean()), Z * float(values.std(ddof=1)) / sqrt(len(values))
    return mean - half, mean + half


def of_auc(auc: float, positives: int, negatives: int) -> tuple[float, float]:
    """AUC ± z standard errors by Hanley and McNeil (Radiology 1982), inside [0, 1]."""
    q1, q2, square = auc / (2 - auc), 2 * auc * auc / (1 + auc), auc * auc
    ours, theirs = (positives - 1) * (q1 - square), (negatives - 1) * (q2 - square)
    variance = (auc * (1 - auc) + ours + theirs) / (positives * negatives)
    half = Z * sqrt(max(0.0, variance))
    return max(0.0, auc - half), min(1.0, auc + half)


def chance_error(positives: int, negatives: int) -> float:
    """The standard error of an AUC where both sides are alike (Mann and Whitney 1947)."""
    return sqrt((positives + negatives + 1) / (12 * positives * negatives))
