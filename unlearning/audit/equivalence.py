"""Equivalence tests: whether a metric differs from its value for Retrain by less than a margin.

Only this audit can show that a method is equivalent to Retrain; all other tests of the audit
package can only show that a method differs from Retrain. The margin is measured in standard
deviations of the metric over the Retrain models. The sample size is the number of independent runs,
not the number of rows. The models of one seed share their data and are not independent, so a test
over several seeds counts seeds and not models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

import numpy as np
from scipy.stats import t as student

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class SeedEquivalence:
    """Result of the test that the mean metric over seeds is equivalent to that of Retrain."""

    difference: float  # mean over seeds of the method's mean minus the mean of its Retrains
    margin: float
    p: float
    seeds: int
    needed: int  # seeds for a power of about 80 % if the true difference is 0

    @property
    def shown(self) -> bool:
        """Whether equivalence is shown at the 5 % level; False does not prove a difference."""
        return self.p < LEVEL


def equivalence_over_seeds(
    ours: Sequence[Sequence[float]], retrains: Sequence[Sequence[float]], margin: float = 1.0
) -> SeedEquivalence:
    """Test whether the mean metrics over seeds differ by less than a margin.

    ``ours`` and ``retrains`` contain, for each seed, one value of the metric per model. The unit of
    the test is the seed: the mean of its models minus the mean of its Retrain models. ``margin`` is
    measured in standard deviations of single Retrain models of the same seed.

    Raises:
        ValueError: there are fewer than two seeds, or the arms have different numbers of seeds, or
            a seed has fewer than two Retrain models, or all Retrain models of each seed have the
            same value.
    """
    n = len(ours)
    usable = n == len(retrains) and n >= 2 and all(len(each) >= 2 for each in retrains)
    if not usable or not any(np.ptp(each) for each in retrains):
        raise ValueError(
            "an equivalence test over seeds needs 2 or more seeds, each with 2 or more Retrain "
            "models, and Retrain models that do not all have the same value of the metric "
            f"(got {n} seeds of the method and {len(retrains)} of Retrain)"
        )
    degrees = [len(each) - 1 for each in retrains]
    variances = [np.var(each, ddof=1) for each in retrains]
    bound = margin * float(np.sqrt(np.average(variances, weights=degrees)))
    differences = [float(np.mean(a) - np.mean(b)) for a, b in zip(ours, retrains, strict=True)]
    difference, spread = fmean(differences), float(np.std(differences, ddof=1))
    # TOST (Schuirmann 1987) on one sample of differences, with n − 1 degrees of freedom.
    nearer, error = bound - abs(difference), spread / sqrt(n)
    p = float(student.sf(nearer / error, n - 1)) if error else float(nearer <= 0)
    return SeedEquivalence(difference, bound, p, n, _needed_seeds(spread / bound))


def _needed_seeds(spread: float) -> int:
    """Return the seeds for a power of 80 %; ``spread`` is over seeds, in units of the margin."""
    # One-sample TOST at the true difference 0: n = ((t.95 + t.90) spread)², with n − 1 degrees.
    n = 2
    while sum(student.ppf((0.95, 0.90), n - 1)) * spread > sqrt(n):
        n += 1
    return n
