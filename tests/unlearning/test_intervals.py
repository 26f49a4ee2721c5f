"""Tests of the limits for one further value of a few models."""

from statistics import fmean, stdev

import numpy as np
import pytest

from unlearning.audit.intervals import (
    RATE,
    auc_chance_error,
    auc_interval,
    auc_variance,
    difference_margin,
    distance_spread,
    further_value_limit,
    further_value_margin,
    seed_interval,
)

RUNS = 10_000


def test_limit_of_three_values_by_hand() -> None:
    # t of two degrees of freedom at 97.5 % is 4.302653; √(1 + 1/3) = 1.154701.
    assert further_value_limit([1.0, 2.0, 3.0]) == pytest.approx(2 + 4.302653 * 1.154701)
    assert further_value_margin(0.5, 3) == pytest.approx(0.5 * 4.302653 * 1.154701)
    assert difference_margin(0.5, 3) == pytest.approx(0.5 * 4.302653 * 2**0.5)


@pytest.mark.parametrize("models", [2, 3, 5, 10])
def test_a_further_value_exceeds_the_limit_at_the_rate(models: int) -> None:
    generator = np.random.default_rng(models)
    drawn = generator.standard_normal((RUNS, models + 1))
    above = sum(one > further_value_limit(others) for one, *others in _rows(drawn))
    assert above / RUNS == pytest.approx(RATE, abs=0.004)


def test_two_deviations_are_exceeded_far_too_often() -> None:
    """The limit that the Streisand check had before."""
    drawn = np.random.default_rng(0).standard_normal((RUNS, 4))
    above = sum(one > fmean(rest) + 2 * stdev(rest) for one, *rest in _rows(drawn))
    assert above / RUNS == pytest.approx(0.113, abs=0.01)


@pytest.mark.parametrize("models", [3, 5])
@pytest.mark.parametrize(("own", "pair", "lowest"), [(1.0, 0.0, 0.02), (1.0, 0.5, 0.01), (0, 1, 0)])
def test_a_further_model_exceeds_the_limit_at_most_at_the_rate(
    models: int, own: float, pair: float, lowest: float
) -> None:
    """Distances are sums of a part of each of two models and a part of the pair."""
    generator = np.random.default_rng(models)
    above = 0
    for _ in range(RUNS // 2):
        distances = _distances(generator, models + 1, own, pair)
        group = distances[1:, 1:]
        means = (group.sum(axis=1) / (models - 1)).tolist()
        spread = distance_spread(means)
        assert spread is not None
        limit = fmean(means) + further_value_margin(spread, models)
        above += distances[0, 1:].mean() > limit
    assert lowest <= above / (RUNS // 2) <= RATE + 0.007


def test_uncorrected_spread_of_distances_is_too_small() -> None:
    """Without the factor (n − 1)/(n − 2), 8 % of the further models exceed the limit of three."""
    generator = np.random.default_rng(9)
    above = 0
    for _ in range(RUNS // 2):
        distances = _distances(generator, 4, 1.0, 0.0)
        means = (distances[1:, 1:].sum(axis=1) / 2).tolist()
        above += distances[0, 1:].mean() > further_value_limit(means)
    assert above / (RUNS // 2) == pytest.approx(0.082, abs=0.01)


def test_spread_of_distances_by_hand() -> None:
    # Parts of the models 0, 1 and 2; distances 1, 2 and 3; means 1.5, 2 and 2.5.
    assert distance_spread([1.5, 2.0, 2.5]) == pytest.approx(1.0)
    assert distance_spread([1.5, 2.0]) is None


def test_auc_variance_at_chance_is_that_of_mann_and_whitney() -> None:
    assert auc_variance(0.5, 7, 30) == pytest.approx(auc_chance_error(7, 30) ** 2)
    assert auc_variance(0.5, 1, 1) == pytest.approx(0.25)
    low, high = auc_interval(0.7, 40, 60)
    assert low < 0.7 < high


@pytest.mark.parametrize("auc", [0.0, 1.0])
def test_an_auc_of_0_or_1_of_one_row_contains_chance(auc: float) -> None:
    assert auc_variance(auc, 7, 30) == pytest.approx(auc_chance_error(7, 30) ** 2)
    low, high = auc_interval(auc, 1, 1)
    assert low < 0.5 < high
    low, high = auc_interval(auc, 100, 100)
    assert not low <= 0.5 <= high


def _rows(drawn: np.ndarray) -> list[list[float]]:
    return drawn.tolist()


def _distances(generator: np.random.Generator, models: int, own: float, pair: float) -> np.ndarray:
    """Symmetric distances, ``[models, models]``, with 0 on the diagonal."""
    parts = own * generator.standard_normal(models)
    pairs = pair * generator.standard_normal((models, models))
    distances = 20 + parts[:, None] + parts[None, :] + (pairs + pairs.T) / np.sqrt(2)
    return distances * (1 - np.eye(models))


def test_interval_over_seeds_is_that_of_student_by_hand() -> None:
    """Mean 2, deviation 1, t of 2 degrees of freedom 4.303: 2 ± 4.303 / √3."""
    assert seed_interval([1.0, 2.0, 3.0]) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-4)
    with pytest.raises(ValueError, match="2 or more seeds"):
        seed_interval([1.0])
