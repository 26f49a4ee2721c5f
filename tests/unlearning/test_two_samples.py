"""Tests of the two-sample tests and of the equivalence test, with and without a difference."""

import numpy as np
import pytest
from scipy.stats import kstest

from unlearning.audit.two_samples import classifier_test, energy_test, holm_correction, ks_by_class


def test_holm_by_hand() -> None:
    assert holm_correction([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_correction([0.9, 0.8]) == [1.0, 1.0]


def test_ks_is_computed_for_every_class() -> None:
    ours, labels = np.arange(40.0), np.repeat([0, 1], 20)
    theirs = np.where(labels == 0, ours, ours + 100)  # class 1 does not overlap
    result = ks_by_class(ours, theirs, labels)
    assert result.statistic == 1.0
    assert result.p < 1e-6
    assert ks_by_class(ours, ours, labels).p == 1.0


def test_energy_distance_by_hand() -> None:
    # X = {0}, Y = {1}, each twice: 2 · 1 - 0 - 0.
    result = energy_test(np.zeros((2, 1)), np.ones((2, 1)), np.random.default_rng(0))
    assert result.statistic == pytest.approx(2.0)
    assert result.p == pytest.approx(1 / 2, abs=0.1)  # 2 of the 4 exchanges
    with pytest.raises(ValueError, match="with 1 or more rows"):
        energy_test(np.zeros((2, 1)), np.zeros((1, 1)), np.random.default_rng(0))


def test_energy_finds_only_a_real_shift() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(3, 80, 2))
    assert energy_test(rows[0], rows[1] + 1, generator).p == pytest.approx(1 / 200)
    assert energy_test(rows[0], rows[1], generator).p > 0.05


def test_energy_pairs_the_outputs_of_a_row() -> None:
    """A small shift of all rows, which lie far apart, is found only if rows are paired."""
    generator = np.random.default_rng(0)
    ours = 10 * generator.normal(size=(80, 2))
    assert energy_test(ours, ours + 0.1, generator).p == pytest.approx(1 / 200)


def test_p_values_of_the_energy_test_are_uniform_without_a_difference() -> None:
    generator = np.random.default_rng(0)
    pairs = generator.normal(size=(100, 2, 40, 3)) + generator.normal(size=(100, 1, 40, 3))
    result = [energy_test(ours, theirs, generator, 99).p for ours, theirs in pairs]
    assert kstest(result, "uniform").pvalue > 0.01


def test_ks_rejects_no_more_often_than_its_level_without_a_difference() -> None:
    generator, labels = np.random.default_rng(0), np.repeat([0, 1], 40)
    pairs = generator.normal(size=(400, 2, 80))
    rejected = [ks_by_class(ours, theirs, labels).p < 0.05 for ours, theirs in pairs]
    assert 0 < np.mean(rejected) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)


def test_energy_of_many_rows_draws_500() -> None:
    generator = np.random.default_rng(0)
    assert energy_test(np.zeros((900, 1)), np.zeros((900, 1)), generator, 9).n == 500


def test_a_classifier_separates_only_different_models() -> None:
    generator = np.random.default_rng(0)
    ours = generator.normal(size=(60, 2))
    apart = classifier_test(ours, ours + 3, generator, 9)
    assert apart.statistic > 0.95
    assert apart.p == pytest.approx(1 / 10)
    assert classifier_test(ours, ours + generator.normal(size=ours.shape), generator, 9).p > 0.05


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="with 5 or more rows"):
        classifier_test(np.zeros((4, 1)), np.zeros((4, 1)), np.random.default_rng(0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rows", range(2, 40))
def test_equal_confidences_cause_no_warning(rows: int) -> None:
    ours = np.arange(float(rows))
    found = ks_by_class(ours, ours + 0.5, np.zeros(rows, np.int64))
    assert found.p > 0.9
