"""Bias of a likelihood-ratio audit: mean estimate by true AUC, and corrected AUCs with intervals.

The audit fits Gaussians to few models, so its AUC is biased towards 0.5. The choice of the larger
AUC of two attacks adds a bias of its own. Synthetic populations of the same layout, with shifts of
known AUC, are put through the same estimator. The mean estimates form the curve, and its inverse
corrects an estimate.

The *true AUC* is that of the best attack on a single entry (one row of one model), which knows both
distributions of each row: the probability that an entry of the first arm has a larger likelihood
ratio than an entry of the second arm, for two rows drawn at random.

The synthetic populations are Gaussian, and a shift changes no variance. Their rows are as
correlated as those of the Retrain models, because all rows of a model move together. The scale of a
row does not matter: both attacks are invariant to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import t as student

from unlearning.audit.lira import (
    AuditLayout,
    attack_aucs,
    stronger_auc,
    worst_row_aucs,
)

Floats = NDArray[np.float64]

TRUE_AUCS = (0.5, 0.525, 0.55, 0.6, 0.65, 0.7, 0.85)
SHARES = (0.0, 0.25, 0.5, 1.0)  # of the mean squared shift, common to all rows
COMMON_SHARE = 0.5  # if there is no shift
SIMULATIONS = 40  # synthetic populations per curve
CONFIDENCE = 0.95
_STEPS = np.linspace(0.5, 1.0, 2001)  # at which the curve is inverted


@dataclass(frozen=True, slots=True)
class RowCorrelation:
    """Gaussian model of standardised confidences, in which rows of one model are correlated.

    The correlation matrix of the rows is shrunk towards independence. ``residuals`` are the
    standardised confidences of the models, ``[models, rows]``; ``shrinkage`` lies in [0, 1].
    """

    residuals: Floats
    shrinkage: float

    @classmethod
    def of(cls, values: Floats) -> "RowCorrelation":
        """Estimate the correlation from the confidences of Retrain models, ``[models, rows]``.

        Raises:
            ValueError: there are fewer than two models, or all models have the same confidence in
                a row.
        """
        n, rows = values.shape
        if n < 2 or not (deviations := values.std(axis=0)).all():
            raise ValueError(
                "the correlation of rows needs 2 or more Retrain models whose confidences differ "
                f"in every row (got {n} models)"
            )
        x = (values - values.mean(axis=0)) / deviations
        # Ledoit and Wolf (2004), lemmas 3.2 to 3.4, with the identity as target:
        # d² = ‖S − I‖², b² = min(d², Σ ‖x xᵀ − S‖² / n²), shrinkage = b² / d².
        s = x.T @ x / n
        d2 = float(((s - np.eye(rows)) ** 2).sum())
        squared = (x**2).sum(axis=1) ** 2 - 2 * ((x @ s) * x).sum(axis=1) + (s**2).sum()
        b2 = min(d2, float(squared.sum()) / n**2)
        return cls(x, b2 / d2 if d2 else 1.0)

    def draw(self, count: int, runs: int, generator: np.random.Generator) -> Floats:
        """Draw standardised confidences of ``count`` populations, ``[count, runs, rows]``."""
        models, rows = self.residuals.shape
        mixed = generator.standard_normal((count, runs, models)) @ self.residuals
        own = generator.standard_normal((count, runs, rows))
        drawn: Floats = sqrt((1 - self.shrinkage) / models) * mixed + sqrt(self.shrinkage) * own
        return drawn


def true_auc(shifts: Floats) -> float:
    """Return the true AUC if row j is shifted by ``shifts[j]`` standard deviations, ``[rows]``."""
    # The log ratio of row j is N(d_j²/2, d_j²) in the first arm and N(−d_k²/2, d_k²) of row k in
    # the second arm; their difference is positive with probability Φ(√(d_j² + d_k²) / 2).
    squares = shifts**2
    return float(ndtr(np.sqrt(squares[:, None] + squares) / 2).mean())


@lru_cache(maxsize=256)
def shifts_of_auc(rows: int, share: float, auc: float) -> Floats:
    """Return shifts with the true AUC ``auc``, ``[rows]``, in standard deviations.

    ``share`` of the mean squared shift is common to all rows; the rest is normal over rows.
    """
    normal = ndtri((np.arange(rows) + 0.5) / rows)
    unit = sqrt(share) + sqrt(1 - share) * normal / np.sqrt(np.mean(normal**2))
    if auc <= 0.5:
        return np.zeros(rows)
    shifts: Floats = unit * brentq(lambda size: true_auc(size * unit) - auc, 0.0, 50.0)
    return shifts


def draw_arms(
    layout: AuditLayout, correlation: RowCorrelation, count: int, generator: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw both arms of ``count`` populations without a shift, ``[count, runs, rows]`` each."""
    first = correlation.draw(count, len(layout.first), generator)
    if layout.same_models:
        return first, first
    return first, correlation.draw(count, len(layout.second), generator)


@dataclass(frozen=True, slots=True)
class BiasCurve:
    """Mean estimate of an audit by true AUC, for one layout or the mean over several.

    The bias depends on how the shift is divided: a shift of random sign is harder to find than a
    shift that the rows have in common. So there is one curve for each share of the mean squared
    shift that is common to all rows.
    """

    true: tuple[float, ...]
    shares: tuple[float, ...]
    estimates: tuple[tuple[float, ...], ...]  # means over synthetic populations, [shares, true]
    errors: tuple[tuple[float, ...], ...]  # standard errors of these means, [shares, true]
    worst: float  # mean of ``worst_row_aucs`` at the true AUC 0.5

    @classmethod
    def mean(cls, curves: Sequence["BiasCurve"]) -> "BiasCurve":
        """Return the mean curve of several seeds."""
        estimates = np.mean([curve.estimates for curve in curves], axis=0)
        errors = np.sqrt(np.sum(np.square([curve.errors for curve in curves]), axis=0))
        return cls(
            curves[0].true,
            curves[0].shares,
            tuple(map(tuple, estimates.tolist())),
            tuple(map(tuple, (errors / len(curves)).tolist())),
            fmean(curve.worst for curve in curves),
        )

    def corrected(self, estimate: float, share: float) -> float:
        """Return the true AUC at which the mean estimate is ``estimate``.

        An estimate below the mean estimate at 0.5 gives a value below 0.5, by symmetry. So the
        corrected value of two equal arms is as often below as above 0.5.
        """
        level = self.estimates[0][0]
        if estimate < level:
            return 1 - self.corrected(2 * level - estimate, share)
        rising = np.maximum.accumulate((*self._at(self.estimates, share), 1.0))
        means = PchipInterpolator((*self.true, 1.0), rising)(_STEPS)
        return float(np.interp(estimate, means, _STEPS))

    def error(self, estimate: float, share: float) -> float:
        """Return the standard error of the curve where the mean estimate is ``estimate``."""
        level = self.estimates[0][0]
        rising = np.maximum.accumulate(self._at(self.estimates, share))
        place = abs(estimate - level) + level
        return float(np.interp(place, rising, self._at(self.errors, share)))

    def _at(self, table: Sequence[Sequence[float]], share: float) -> Floats:
        columns = zip(*table, strict=True)
        return np.array([np.interp(share, self.shares, column) for column in columns])


def bias_curve(
    layout: AuditLayout,
    correlation: RowCorrelation,
    generator: np.random.Generator,
    simulations: int = SIMULATIONS,
) -> BiasCurve:
    """Measure the curves of a layout on ``simulations`` synthetic populations."""
    first, second = draw_arms(layout, correlation, simulations, generator)
    rows = first.shape[-1]
    order = generator.permuted(np.tile(np.arange(rows), (simulations, 1)), axis=1)[:, None]

    def estimates(share: float, auc: float) -> Floats:
        shifted = first + shifts_of_auc(rows, share, auc)[order]
        return stronger_auc(attack_aucs(shifted, second, layout))

    null = estimates(COMMON_SHARE, 0.5)
    found = np.array(
        [[null, *(estimates(share, auc) for auc in TRUE_AUCS[1:])] for share in SHARES]
    )  # [shares, true, simulations]
    errors = found.std(axis=2, ddof=1) / sqrt(simulations)
    return BiasCurve(
        TRUE_AUCS,
        SHARES,
        tuple(map(tuple, found.mean(axis=2).tolist())),
        tuple(map(tuple, errors.tolist())),
        float(worst_row_aucs(first, second, layout).mean()),
    )


class SeedEstimate(NamedTuple):
    """What the correction reads of the audit of one seed: an AUC, and ``squared_shifts``."""

    auc: float
    shift: float
    common_shift: float


@dataclass(frozen=True, slots=True)
class CorrectedAuc:
    """Corrected AUC over seeds with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    estimate: float  # mean over seeds before the correction
    share: float  # share of the mean squared shift that is common to all rows
    seeds: int

    @property
    def holds_half(self) -> bool:
        """Whether the interval holds 0.5: the audit has found no difference."""
        return self.low <= 0.5 <= self.high


def corrected_auc(audits: Sequence[SeedEstimate], curves: Sequence[BiasCurve]) -> CorrectedAuc:
    """Correct the mean AUC of ``audits``, one per seed, by the mean of the seeds' curves.

    The seeds are independent, and each has its own models. The spread over seeds therefore contains
    the error from few models, and the interval is that of Student's t over seeds. Its ends are
    corrected like the value; the curve rises, so the coverage stays the same.

    Raises:
        ValueError: there are fewer than two seeds.
    """
    n = len(audits)
    if n < 2:
        raise ValueError(f"an interval over seeds needs 2 or more seeds (got {n})")
    estimates, curve = [audit.auc for audit in audits], BiasCurve.mean(curves)
    share, mean = _common_share(audits), fmean(estimates)
    error = sqrt(stdev(estimates) ** 2 / n + curve.error(mean, share) ** 2)
    half = float(student.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    value, low, high = (curve.corrected(mean + offset, share) for offset in (0.0, -half, half))
    return CorrectedAuc(value, low, high, mean, share, n)


def _common_share(audits: Sequence[SeedEstimate]) -> float:
    total = fmean(audit.shift for audit in audits)
    common = max(0.0, fmean(audit.common_shift for audit in audits))
    return min(1.0, common / total) if total > 0 else COMMON_SHARE
