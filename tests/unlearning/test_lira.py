"""Tests of likelihood-ratio audits on simulated populations of models."""

import math

import numpy as np
import pytest

from unlearning.audit.epsilon import AttackCounts
from unlearning.audit.lira import (
    Arm,
    likelihood_ratio_audit,
    wasserstein_distances,
    whole_model_counts,
)


def normal_arm(mean: float, seed: int, runs: int = 64, rows: int = 50) -> Arm:
    generator = np.random.default_rng(seed)
    hardness = np.random.default_rng(7).normal(0, 3, rows)  # the same rows in every arm
    return Arm.whole(hardness + mean + generator.normal(0, 1, (runs, rows)))


NO_TRIALS = AttackCounts(0, 0, 0, 0)


def auc_and_error(first: Arm, second: Arm) -> tuple[float, float]:
    result = likelihood_ratio_audit(first, second, np.random.default_rng(0))
    return result.auc, result.error


def test_two_equal_populations_have_auc_one_half() -> None:
    aucs = [auc_and_error(normal_arm(0, seed), normal_arm(0, 100 + seed))[0] for seed in range(20)]
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.005)


def test_a_shift_of_one_standard_deviation_is_found() -> None:
    # Φ(1 / √2) = 0.760 with known Gaussians; those fitted to 48 runs lose a little.
    auc, error = auc_and_error(normal_arm(1, 1), normal_arm(0, 2))
    assert 0.73 < auc < 0.765
    assert 0 < error < 0.02


def test_a_population_of_larger_variance_is_found() -> None:
    wide = normal_arm(0, 1)
    spread = Arm.whole(wide.values.mean(axis=0) + 3 * (wide.values - wide.values.mean(axis=0)))
    assert auc_and_error(spread, normal_arm(0, 2))[0] > 0.65


def test_a_model_that_diverged_is_refused() -> None:
    values = normal_arm(0, 1).values
    values[3, 5] = np.nan
    with pytest.raises(ValueError, match=r"1 of .* models diverged"):
        Arm.whole(values)


def test_values_outside_the_arm_do_not_count() -> None:
    taken = np.tile(np.array([[True, False], [False, True]]), (32, 25))
    noise = normal_arm(0, 1)
    planted = np.where(taken, noise.values, 1e6)
    auc, _ = auc_and_error(Arm(planted, taken), normal_arm(0, 2))
    assert auc == pytest.approx(0.5, abs=0.05)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="an example has 15 runs"):
        likelihood_ratio_audit(
            normal_arm(0, 1, runs=15), normal_arm(0, 2), np.random.default_rng(0)
        )


def test_arms_of_different_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="must have the same rows"):
        likelihood_ratio_audit(
            normal_arm(0, 1, rows=4), normal_arm(0, 2, rows=5), np.random.default_rng(0)
        )


def test_wasserstein_distance_by_hand() -> None:
    first = Arm.whole(np.array([[0.0], [2.0]]))  # mean 1, variance 2
    second = Arm.whole(np.array([[3.0], [5.0]]))  # mean 4, variance 2
    assert wasserstein_distances(first, second) == pytest.approx([3.0])


def test_clearly_separated_models_are_all_classified_correctly() -> None:
    assert whole_model_counts(normal_arm(3, 1), normal_arm(0, 2)) == AttackCounts(32, 32, 0, 32)


def test_equal_models_are_classified_by_chance() -> None:
    result = sum(
        (whole_model_counts(normal_arm(0, seed), normal_arm(0, 50 + seed)) for seed in range(20)),
        NO_TRIALS,
    )
    assert result.hits == pytest.approx(result.alarms, abs=4 * math.sqrt(640 / 2))


def test_whole_models_are_scored_on_the_rows_of_their_run() -> None:
    taken = np.tile(np.array([[True, False], [False, True]]), (32, 25))
    planted = np.where(taken, normal_arm(3, 1).values, -1e6)
    other = np.where(taken, normal_arm(0, 2).values, 1e6)
    far, retrained = Arm(planted, taken), Arm(other, taken)
    assert whole_model_counts(far, retrained) == AttackCounts(32, 32, 0, 32)


@pytest.mark.parametrize(("runs", "rows"), [(64, 49), (62, 50)])
def test_counting_arms_of_different_shape_is_refused(runs: int, rows: int) -> None:
    with pytest.raises(ValueError, match="different numbers of runs or of rows"):
        whole_model_counts(normal_arm(0, 1), normal_arm(0, 2, runs=runs, rows=rows))


def test_too_few_whole_models_are_refused() -> None:
    with pytest.raises(ValueError, match=r"4 runs in the first half .*; expected 8"):
        whole_model_counts(normal_arm(0, 1, runs=8), normal_arm(0, 2, runs=8))
