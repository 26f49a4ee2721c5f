"""Tests of attack scores and of confidence intervals."""

import numpy as np
import pytest

from unlearning.audit import intervals
from unlearning.audit.intervals import auc_interval
from unlearning.audit.scores import (
    ScoredRows,
    auc,
    cross_fitted_scores,
    distinguishability,
    tpr_at_fpr,
    within_class_auc,
)


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


def rows(*pairs: tuple[float, int]) -> ScoredRows:
    return ScoredRows(np.array([s for s, _ in pairs]), np.array([label for _, label in pairs]))


def test_auc_within_classes_by_hand() -> None:
    # Class 0: one of two pairs is in order. Class 1: both pairs are. Class 2 has one side only.
    positives = rows((1.0, 0), (9.0, 1), (0.0, 2))
    negatives = rows((2.0, 0), (0.0, 0), (8.0, 1), (7.0, 1))
    result = within_class_auc(positives, negatives)
    assert result is not None
    assert result.value == pytest.approx(0.75)  # both classes have the same weight
    assert result.n == 2


def test_class_alone_gives_half_within_classes() -> None:
    positives, negatives = rows(*[(5.0, 0)] * 30, (1.0, 1)), rows((5.0, 0), *[(1.0, 1)] * 30)
    result = within_class_auc(positives, negatives)
    assert result is not None
    assert result.value == 0.5
    assert auc(positives.scores, negatives.scores) > 0.9


def test_one_class_gives_the_plain_auc_with_its_interval() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.standard_normal(40) + 0.5, generator.standard_normal(60)
    zeros = [np.zeros(len(each), np.int64) for each in (first, second)]
    result = within_class_auc(ScoredRows(first, zeros[0]), ScoredRows(second, zeros[1]))
    assert result is not None
    assert result.value == pytest.approx(auc(first, second))
    assert (result.low, result.high) == pytest.approx(auc_interval(result.value, 40, 60))


def test_one_row_per_class_has_an_interval_that_contains_half() -> None:
    result = within_class_auc(rows((2.0, 0)), rows((1.0, 0)))
    assert result is not None
    assert result.value == 1.0
    assert result.value - result.margin < 0.5


def test_groups_without_a_common_class_have_no_auc() -> None:
    assert within_class_auc(rows((1.0, 0)), rows((1.0, 1))) is None


def test_auc_within_classes_finds_a_shift_better_than_matched_rows() -> None:
    """Three classes with other proportions on both sides; a class shifts all of its scores by 1."""

    def draw(shift: float, generator: np.random.Generator) -> tuple[float, float, bool]:
        labels = [np.repeat(np.arange(3), generator.integers(20, 200, 3)) for _ in range(2)]
        scores = [each + generator.standard_normal(len(each)) for each in labels]
        scores[0] += shift
        groups = [ScoredRows(*each) for each in zip(scores, labels, strict=True)]
        result = within_class_auc(*groups)
        assert result is not None
        fewest = [min(int((each == one).sum()) for each in labels) for one in range(3)]
        matched = [
            np.concatenate([s.scores[s.labels == one][: fewest[one]] for one in range(3)])
            for s in groups
        ]
        return result.value, auc(*matched), result.low <= 0.5 <= result.high

    generator = np.random.default_rng(1)
    equal, moved = (np.array([draw(shift, generator) for _ in range(80)]) for shift in (0.0, 0.3))
    ours, theirs, covered = equal.mean(axis=0)
    assert ours == pytest.approx(0.5, abs=0.01)
    assert theirs == pytest.approx(0.5, abs=0.01)
    assert 0.9 <= covered <= 1.0
    found = (moved - equal).mean(axis=0) / equal.std(axis=0)
    assert found[0] > 1.1 * found[1]
