"""Tests of attack scores and of confidence intervals."""

import numpy as np
import pytest

from unlearning.audit import intervals
from unlearning.audit.scores import auc, cross_fitted_scores, distinguishability, tpr_at_fpr


def test_auc_counts_a_tie_half() -> None:
    assert auc(np.array([1.0, 3.0]), np.array([1.0, 2.0])) == pytest.approx((0.5 + 0 + 1 + 1) / 4)


def test_distinguishability_reverses_an_attack_that_is_wrong() -> None:
    assert (distinguishability(0.1).value, distinguishability(0.1).sign) == (0.9, -1)
    assert (distinguishability(0.7).value, distinguishability(0.7).sign) == (0.7, 1)


def test_tpr_allows_one_false_positive_in_a_hundred() -> None:
    others = np.arange(100.0)  # one of them may lie above the threshold: it is 98
    assert tpr_at_fpr(np.array([98.0, 98.5, 99.5, 200.0]), others) == 0.75
    # Of 99 others none may lie above the threshold: it is 98.
    assert tpr_at_fpr(np.array([98.5, 99.5]), np.arange(99.0)) == 1.0


def test_cross_fitted_scores_find_only_a_real_difference() -> None:
    generator = np.random.default_rng(0)
    noise = generator.normal(size=(2, 300, 3))
    assert abs(auc(*cross_fitted_scores(noise[0], noise[1], 1)) - 0.5) < 0.1
    assert auc(*cross_fitted_scores(noise[0] + 2, noise[1], 1)) > 0.95


def test_too_few_rows_for_folds_are_refused() -> None:
    with pytest.raises(ValueError, match=r"5 or more rows in each group \(got 4 and 9\)"):
        cross_fitted_scores(np.zeros((4, 1)), np.zeros((9, 1)), 0)


def test_interval_of_a_share_by_hand() -> None:
    # Wilson for 0 of 10: [0, z² / (n + z²)].
    assert intervals.share_interval(0, 10) == (0.0, pytest.approx(3.8415 / 13.8415, abs=1e-4))
    low, high = intervals.share_interval(5, 10)
    assert (low + high) / 2 == pytest.approx(0.5)


def test_interval_of_a_mean_by_hand() -> None:
    low, high = intervals.mean_interval(np.array([1.0, 3.0])) or (0, 0)  # sd √2, error 1
    assert (low, high) == (pytest.approx(2 - 1.95996, abs=1e-4), pytest.approx(3.95996, abs=1e-4))
    assert intervals.mean_interval(np.array([1.0])) is None


def test_interval_of_an_auc_by_hand() -> None:
    # Q1 = Q2 = 1/3 at ½: variance (¼ + 18 · (1/3 - ¼)) / 100 = 0.0175.
    low, high = intervals.auc_interval(0.5, 10, 10)
    assert (high - low) / 2 == pytest.approx(1.95996 * 0.0175**0.5, abs=1e-4)
    assert intervals.auc_chance_error(10, 10) == pytest.approx((21 / 1200) ** 0.5)
