"""Tests of the bias curve of likelihood-ratio audits, on synthetic shifts of known AUC."""

from math import sqrt

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.covariance import ledoit_wolf_shrinkage

from unlearning.audit.bias_curve import (
    TRUE_AUCS,
    BiasCurve,
    RowCorrelation,
    SeedEstimate,
    bias_curve,
    corrected_auc,
    shifts_of_auc,
    true_auc,
)
from unlearning.audit.lira import AuditLayout, attack_aucs, squared_shifts, stronger_auc

RUNS, ROWS, STUDIES = 32, 40, 40
STRAIGHT = BiasCurve(
    TRUE_AUCS,
    (0.0, 1.0),
    (TRUE_AUCS, TRUE_AUCS),
    ((0.01,) * len(TRUE_AUCS), (0.01,) * len(TRUE_AUCS)),
    worst=0.6,
)


def halves(generator: np.random.Generator) -> np.ndarray:
    order = generator.permuted(np.tile(np.arange(ROWS), (RUNS // 2, 1)), axis=1)
    return np.stack([order < ROWS // 2, order >= ROWS // 2], axis=1).reshape(RUNS, ROWS)


def models(generator: np.random.Generator) -> np.ndarray:
    """Confidences of variance 1 with a component that all rows of a model share."""
    common, own = generator.normal(size=(RUNS, 1)), generator.normal(size=(RUNS, ROWS))
    return sqrt(0.2) * common + sqrt(0.8) * own


def test_true_auc_by_hand() -> None:
    assert true_auc(np.ones(3)) == pytest.approx(norm.cdf(1 / sqrt(2)))
    # One row of two is shifted by 1: the pairs of rows have AUCs .5, Φ(1/2), Φ(1/2), Φ(1/√2).
    expected = (0.5 + 2 * norm.cdf(0.5) + norm.cdf(1 / sqrt(2))) / 4
    assert true_auc(np.array([0.0, 1.0])) == pytest.approx(expected)


def test_true_auc_is_that_of_the_attack_that_knows_the_shifts() -> None:
    generator, shifts = np.random.default_rng(0), np.array([0.2, -1.0, 0.5, 0.0])
    first, second = generator.normal(size=(2, 20_000, 4))
    ratios = [shifts * each - shifts**2 / 2 for each in (first + shifts, second)]
    above = ratios[0].ravel() > generator.permutation(ratios[1].ravel())
    ties = (shifts == 0).mean() ** 2 / 2  # both entries are in the row without a shift
    assert above.mean() + ties == pytest.approx(true_auc(shifts), abs=4 * 0.5 / sqrt(80_000))


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_shifts_have_the_wanted_auc_and_share(share: float) -> None:
    shifts = shifts_of_auc(ROWS, share, 0.6)
    assert true_auc(shifts) == pytest.approx(0.6)
    assert shifts.mean() ** 2 / (shifts**2).mean() == pytest.approx(share)
    assert not shifts_of_auc(ROWS, share, 0.5).any()


def test_correlation_is_shrunk_as_ledoit_and_wolf_do() -> None:
    values = 3 + 2 * models(np.random.default_rng(1))
    correlation = RowCorrelation.of(values)
    standardised = (values - values.mean(axis=0)) / values.std(axis=0)
    expected = ledoit_wolf_shrinkage(standardised, assume_centered=True)
    assert correlation.shrinkage == pytest.approx(expected)
    drawn = correlation.draw(500, 20, np.random.default_rng(2)).reshape(-1, ROWS)
    measured = np.corrcoef(standardised.T) * (1 - expected) + expected * np.eye(ROWS)
    assert np.cov(drawn.T) == pytest.approx(measured, abs=5 * sqrt(2 / 10_000))


def test_models_without_spread_are_refused() -> None:
    with pytest.raises(ValueError, match="needs 2 or more Retrain models whose confidences differ"):
        RowCorrelation.of(np.ones((5, 3)))
    with pytest.raises(ValueError, match="got 1 models"):
        RowCorrelation.of(np.ones((1, 3)))


def test_estimated_shifts_are_unbiased() -> None:
    generator = np.random.default_rng(3)
    shifts = shifts_of_auc(ROWS, 0.5, 0.65)
    found = []
    for _ in range(300):
        forgot, layout = models(generator), AuditLayout.u_lira(halves(generator))
        found.append(squared_shifts(forgot + shifts, forgot, layout))
    error = np.std(found, axis=0) / sqrt(len(found))
    total = (shifts**2).mean()
    assert np.abs(np.mean(found, axis=0) - [total, total / 2]) == pytest.approx(
        0, abs=0.01 * total + 4 * error.max()
    )


def test_the_curve_shows_the_bias_and_rises() -> None:
    generator = np.random.default_rng(4)
    layout = AuditLayout.vs_retrain(halves(generator), RUNS)
    curve = bias_curve(layout, RowCorrelation.of(models(generator)), generator)
    random_sign, common = np.array(curve.estimates)[[0, -1]]
    errors = np.array(curve.errors)
    assert (np.diff(curve.estimates, axis=1)[:, 1:] > 0).all()
    # Shifts of random sign are harder to find than a common shift, and both are underestimated.
    place = TRUE_AUCS.index(0.6)
    assert random_sign[place] + 4 * errors[:, place].max() < common[place] < 0.6
    assert curve.estimates[0][0] == pytest.approx(0.5, abs=0.02)
    assert 0.55 < curve.worst < 0.75


def test_an_estimate_on_the_curve_is_corrected_to_the_true_auc() -> None:
    read = (0.51, 0.52, 0.53, 0.57, 0.62, 0.68, 0.83)
    flat = (0.51, 0.51, 0.51, 0.55, 0.60, 0.66, 0.81)
    curve = BiasCurve(
        TRUE_AUCS, (0.0, 1.0), (flat, read), ((0.01,) * len(TRUE_AUCS),) * 2, worst=0.6
    )
    assert [curve.corrected(each, 1.0) for each in read] == pytest.approx(TRUE_AUCS, abs=1e-3)
    assert curve.corrected((0.57 + 0.55) / 2, 0.5) == pytest.approx(0.6, abs=1e-3)
    assert curve.corrected(0.50, 1.0) == pytest.approx(1 - 0.525, abs=1e-3)
    assert curve.corrected(1.0, 1.0) == 1.0


def test_curves_of_seeds_are_averaged() -> None:
    lower = tuple(each - 0.02 for each in TRUE_AUCS)
    other = BiasCurve(
        TRUE_AUCS, (0.0, 1.0), (lower, lower), ((0.01,) * len(TRUE_AUCS),) * 2, worst=0.7
    )
    mean = BiasCurve.mean([STRAIGHT, other])
    assert mean.estimates[0] == pytest.approx([each - 0.01 for each in TRUE_AUCS])
    assert mean.errors[1] == pytest.approx([0.01 / sqrt(2)] * len(TRUE_AUCS))
    assert mean.worst == pytest.approx(0.65)


def test_the_interval_is_that_of_student_over_seeds() -> None:
    seeds = [SeedEstimate(auc, 0.02, 0.01) for auc in (0.58, 0.60, 0.62)]
    result = corrected_auc(seeds, [STRAIGHT] * 3)
    # Standard error √(0.02² / 3 + 0.01² / 3); the 97.5 % quantile of t with 2 degrees is 4.303.
    half = 4.303 * sqrt((0.02**2 + 0.01**2) / 3)
    assert result.value == pytest.approx(0.6, abs=1e-3)
    assert (result.low, result.high) == pytest.approx((0.6 - half, 0.6 + half), abs=2e-3)
    assert (result.share, result.seeds, result.holds_half) == (0.5, 3, False)


def test_one_seed_has_no_interval() -> None:
    with pytest.raises(ValueError, match="needs 2 or more seeds"):
        corrected_auc([SeedEstimate(0.6, 0.1, 0.1)], [STRAIGHT])


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("true", [0.5, 0.6])
def test_corrected_auc_is_near_the_true_auc(true: float, share: float) -> None:
    generator = np.random.default_rng(5)
    layout = AuditLayout.u_lira(halves(generator))
    curve = bias_curve(layout, RowCorrelation.of(models(generator)), generator, 60)
    found = []
    for _ in range(STUDIES):
        seeds = []
        for _ in range(5):
            forgot = models(generator)
            shifted = forgot + generator.permutation(shifts_of_auc(ROWS, share, true))
            auc = float(stronger_auc(attack_aucs(shifted, forgot, layout)))
            seeds.append(SeedEstimate(auc, *squared_shifts(shifted, forgot, layout)))
        found.append(corrected_auc(seeds, [curve] * 5))
    values = np.array([each.value for each in found])
    assert values.mean() == pytest.approx(true, abs=0.01 + 3 * values.std() / sqrt(STUDIES))
    covered = np.mean([each.low <= true <= each.high for each in found])
    assert covered > 0.95 - 3 * sqrt(0.95 * 0.05 / STUDIES)
