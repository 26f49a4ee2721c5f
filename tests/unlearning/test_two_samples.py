"""Two-sample tests by hand, with a difference that each must find and a null that none may."""

import numpy as np
import pytest
from scipy.stats import kstest

from unlearning.audit.equivalence import equivalence, needed_runs
from unlearning.audit.two_samples import classifier_test, energy_test, holm, ks_by_class


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_ks_looks_at_every_class() -> None:
    ours, labels = np.arange(40.0), np.repeat([0, 1], 20)
    theirs = np.where(labels == 0, ours, ours + 100)  # class 1 is wholly apart
    found = ks_by_class(ours, theirs, labels)
    assert found.statistic == 1.0
    assert found.p < 1e-6
    assert ks_by_class(ours, ours, labels).p == 1.0


def test_energy_distance_by_hand() -> None:
    # X = {0}, Y = {1}, each twice: 2 · 1 - 0 - 0.
    found = energy_test(np.zeros((2, 1)), np.ones((2, 1)), np.random.default_rng(0))
    assert found.statistic == pytest.approx(2.0)
    assert found.p == pytest.approx(1 / 2, abs=0.1)  # 2 of the 4 ways to swap them
    with pytest.raises(ValueError, match="same 1 or more rows"):
        energy_test(np.zeros((2, 1)), np.zeros((1, 1)), np.random.default_rng(0))


def test_energy_finds_a_shift_and_no_more() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(3, 80, 2))
    assert energy_test(rows[0], rows[1] + 1, generator).p == pytest.approx(1 / 200)
    assert energy_test(rows[0], rows[1], generator).p > 0.05


def test_energy_knows_that_both_sides_are_of_the_same_rows() -> None:
    """Rows lie far apart and each moved a little, all the same way: lost if rows are not paired."""
    generator = np.random.default_rng(0)
    ours = 10 * generator.normal(size=(80, 2))
    assert energy_test(ours, ours + 0.1, generator).p == pytest.approx(1 / 200)


def test_where_nothing_differs_every_p_of_the_energy_test_is_as_likely() -> None:
    generator = np.random.default_rng(0)
    pairs = generator.normal(size=(100, 2, 40, 3)) + generator.normal(size=(100, 1, 40, 3))
    found = [energy_test(ours, theirs, generator, 99).p for ours, theirs in pairs]
    assert kstest(found, "uniform").pvalue > 0.01


def test_where_nothing_differs_ks_raises_its_alarm_no_more_often_than_it_says() -> None:
    generator, labels = np.random.default_rng(0), np.repeat([0, 1], 40)
    pairs = generator.normal(size=(400, 2, 80))
    alarms = [ks_by_class(ours, theirs, labels).p < 0.05 for ours, theirs in pairs]
    assert 0 < np.mean(alarms) < 0.05 + 2 * np.sqrt(0.05 * 0.95 / 400)


def test_energy_of_many_rows_looks_at_some() -> None:
    generator = np.random.default_rng(0)
    assert energy_test(np.zeros((900, 1)), np.zeros((900, 1)), generator, 9).n == 500


def test_a_classifier_tells_two_models_apart_only_where_they_differ() -> None:
    generator = np.random.default_rng(0)
    ours = generator.normal(size=(60, 2))
    apart = classifier_test(ours, ours + 3, generator, 9)
    assert apart.statistic > 0.95
    assert apart.p == pytest.approx(1 / 10)
    assert classifier_test(ours, ours + generator.normal(size=ours.shape), generator, 9).p > 0.05


def test_other_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="same 5 or more rows"):
        classifier_test(np.zeros((4, 1)), np.zeros((4, 1)), np.random.default_rng(0))


def test_runs_that_equivalence_needs() -> None:
    assert [needed_runs(margin) for margin in (1.0, 0.75, 0.5)] == [18, 31, 69]


def test_few_runs_show_no_equivalence_and_many_do() -> None:
    few = [0.0, 1.0, -1.0]
    assert not equivalence(few, few).shown
    many = [float(value) for value in np.random.default_rng(0).normal(size=40)]
    assert equivalence(many, many).shown


def test_equivalence_by_hand() -> None:
    # Means 0 apart, sd 1 each, n = 3: t = 1 / √(2/3), 4 degrees of freedom.
    found = equivalence([0.0, 1.0, -1.0], [0.0, 1.0, -1.0])
    assert found.p == pytest.approx(0.14396, abs=1e-4)
    assert (found.difference, found.margin, found.runs, found.needed) == (0.0, 1.0, 3, 18)


def test_a_difference_beyond_the_margin_is_no_equivalence() -> None:
    many = [float(value) for value in np.random.default_rng(0).normal(size=40)]
    assert equivalence([value + 1.5 for value in many], many).p > 0.5


def test_runs_that_do_not_differ_give_no_unit() -> None:
    with pytest.raises(ValueError, match="Retrains that differ"):
        equivalence([1.0, 2.0], [1.0, 1.0])
