"""Likelihood-ratio audits over populations of models: confidences, arms and distances."""

import math

import numpy as np
import pytest

from unlearning.audit.epsilon import Tally
from unlearning.audit.lira import Arm, audit, tally, wasserstein


def normal(mean: float, seed: int, runs: int = 64, rows: int = 50) -> Arm:
    generator = np.random.default_rng(seed)
    hardness = np.random.default_rng(7).normal(0, 3, rows)  # the same rows in every arm
    return Arm.whole(hardness + mean + generator.normal(0, 1, (runs, rows)))


NOTHING = Tally(0, 0, 0, 0)


def judge(first: Arm, second: Arm) -> tuple[float, float]:
    found = audit(first, second, np.random.default_rng(0))
    return found.auc, found.error


def test_two_populations_of_one_kind_are_not_told_apart() -> None:
    aucs = [judge(normal(0, seed), normal(0, 100 + seed))[0] for seed in range(20)]
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.005)


def test_a_shift_of_one_standard_deviation_is_found() -> None:
    # Φ(1 / √2) = 0.760 with known Gaussians; those fitted to 48 runs lose a little.
    auc, error = judge(normal(1, 1), normal(0, 2))
    assert 0.73 < auc < 0.765
    assert 0 < error < 0.02


def test_a_population_that_scatters_more_is_found_too() -> None:
    wide = normal(0, 1)
    spread = Arm.whole(wide.values.mean(axis=0) + 3 * (wide.values - wide.values.mean(axis=0)))
    assert judge(spread, normal(0, 2))[0] > 0.65


def test_a_model_that_diverged_is_refused_and_not_called_alike() -> None:
    values = normal(0, 1).values
    values[3, 5] = np.nan
    with pytest.raises(ValueError, match=r"1 of .* models diverged"):
        Arm.whole(values)


def test_only_values_that_are_taken_count() -> None:
    taken = np.tile(np.array([[True, False], [False, True]]), (32, 25))
    noise = normal(0, 1)
    planted = np.where(taken, noise.values, 1e6)
    auc, _ = judge(Arm(planted, taken), normal(0, 2))
    assert auc == pytest.approx(0.5, abs=0.05)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="15 runs"):
        audit(normal(0, 1, runs=15), normal(0, 2), np.random.default_rng(0))


def test_other_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="other rows"):
        audit(normal(0, 1, rows=4), normal(0, 2, rows=5), np.random.default_rng(0))


def test_the_distance_of_two_gaussians_by_hand() -> None:
    first = Arm.whole(np.array([[0.0], [2.0]]))  # mean 1, variance 2
    second = Arm.whole(np.array([[3.0], [5.0]]))  # mean 4, variance 2
    assert wasserstein(first, second) == pytest.approx([3.0])


def test_whole_models_that_are_far_away_are_all_taken_right() -> None:
    assert tally(normal(3, 1), normal(0, 2)) == Tally(32, 32, 0, 32)


def test_whole_models_of_one_kind_are_taken_by_chance() -> None:
    found = sum((tally(normal(0, seed), normal(0, 50 + seed)) for seed in range(20)), NOTHING)
    assert found.hits == pytest.approx(found.alarms, abs=4 * math.sqrt(640 / 2))


def test_whole_models_are_scored_on_the_rows_that_count_in_their_run() -> None:
    taken = np.tile(np.array([[True, False], [False, True]]), (32, 25))
    planted = np.where(taken, normal(3, 1).values, -1e6)
    beside = np.where(taken, normal(0, 2).values, 1e6)
    far, retrained = Arm(planted, taken), Arm(beside, taken)
    assert tally(far, retrained) == Tally(32, 32, 0, 32)


@pytest.mark.parametrize(("runs", "rows"), [(64, 49), (62, 50)])
def test_whole_models_of_arms_that_do_not_match_are_refused(runs: int, rows: int) -> None:
    with pytest.raises(ValueError, match="equally many runs and rows"):
        tally(normal(0, 1), normal(0, 2, runs=runs, rows=rows))


def test_too_few_whole_models_are_refused() -> None:
    with pytest.raises(ValueError, match="4 runs to learn from; 8 are needed"):
        tally(normal(0, 1, runs=8), normal(0, 2, runs=8))
