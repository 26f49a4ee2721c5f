"""Tests of likelihood-ratio audits on simulated populations of models."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from unlearning.audit.epsilon import AttackCounts
from unlearning.audit.lira import (
    Arm,
    AuditLayout,
    attack_aucs,
    excess_auc,
    stronger_auc,
    wasserstein_distances,
    whole_model_counts,
    worst_row_aucs,
)


def normal_arm(mean: float, seed: int, runs: int = 64, rows: int = 50) -> Arm:
    generator = np.random.default_rng(seed)
    hardness = np.random.default_rng(7).normal(0, 3, rows)  # the same rows in every arm
    return Arm.whole(hardness + mean + generator.normal(0, 1, (runs, rows)))


NO_TRIALS = AttackCounts(0, 0, 0, 0)


def auc_of(first: Arm, second: Arm) -> float:
    layout = AuditLayout(first.taken, second.taken)
    return float(stronger_auc(attack_aucs(first.values, second.values, layout)))


def test_two_equal_populations_have_auc_one_half() -> None:
    aucs = [auc_of(normal_arm(0, seed), normal_arm(0, 100 + seed)) for seed in range(20)]
    assert np.mean(aucs) == pytest.approx(0.5, abs=0.005)


def test_a_shift_of_one_standard_deviation_is_found() -> None:
    # Φ(1 / √2) = 0.760 with known Gaussians; those fitted to 48 runs lose a little.
    assert 0.73 < auc_of(normal_arm(1, 1), normal_arm(0, 2)) < 0.765


def random_halves(seed: int, runs: int = 64, rows: int = 50) -> np.ndarray:
    order = np.random.default_rng(seed).permuted(np.tile(np.arange(rows), (runs // 2, 1)), axis=1)
    return np.stack([order < rows // 2, order >= rows // 2], axis=1).reshape(runs, rows)


def mean_attacks(shifts: np.ndarray) -> np.ndarray:
    """Mean AUCs of the per-row and the pooled attack over 20 populations."""
    found = []
    for seed in range(20):
        first, second = normal_arm(0, seed), normal_arm(0, 100 + seed)
        layout = AuditLayout.vs_retrain(random_halves(seed), 64)
        found.append(attack_aucs(first.values + shifts, second.values, layout))
    return np.mean(found, axis=0)


def test_the_pooled_attack_finds_a_weak_common_shift() -> None:
    # Φ(0.2 / √2) = 0.556. The centres, fitted to 48 Retrain models, cost little.
    own, pooled = mean_attacks(np.full(50, 0.2))
    assert own < 0.535
    assert pooled == pytest.approx(norm.cdf(0.2 / math.sqrt(2)), abs=0.006)


def test_the_per_row_attack_finds_shifts_of_both_signs() -> None:
    own, pooled = mean_attacks(np.where(np.arange(50) % 2, 0.6, -0.6))
    assert own > 0.6
    assert pooled == pytest.approx(0.5, abs=0.02)


def test_the_result_is_the_larger_auc() -> None:
    first, second = normal_arm(0.2, 1), normal_arm(0, 2)
    layout = AuditLayout(first.taken, second.taken)
    own, pooled = attack_aucs(first.values, second.values, layout)
    assert auc_of(first, second) == max(own, pooled) == pooled


def test_attacks_do_not_depend_on_the_scale_of_a_row() -> None:
    layout = AuditLayout.u_lira(random_halves(0))
    values, scale = normal_arm(0.5, 1).values, np.geomspace(0.5, 20, 50)
    expected = attack_aucs(values, values + 0.1, layout)
    assert attack_aucs(scale * values, scale * (values + 0.1), layout) == pytest.approx(expected)


def test_several_populations_are_audited_as_one_by_one() -> None:
    layout = AuditLayout.vs_retrain(random_halves(0), 64)
    first = np.stack([normal_arm(shift, 1).values for shift in (0.0, 0.5)])
    second = np.stack([normal_arm(0, seed).values for seed in (2, 3)])
    one_by_one = [attack_aucs(*arms, layout) for arms in zip(first, second, strict=True)]
    found = attack_aucs(first, second, layout)
    assert found.T.tolist() == [pytest.approx(each.tolist()) for each in one_by_one]


def test_worst_row_of_equal_arms_is_above_one_half() -> None:
    # An AUC of 32 against 64 models has the standard error √(97 / (12 · 32 · 64)) = 0.063; the 90th
    # percentile of its distance from 0.5 is 1.645 standard errors. The folds' fits add noise.
    layout = AuditLayout.vs_retrain(random_halves(0), 64)
    first = np.stack([normal_arm(0, seed).values for seed in range(20)])
    second = np.stack([normal_arm(0, 100 + seed).values for seed in range(20)])
    worst = worst_row_aucs(first, second, layout)
    assert worst.mean() == pytest.approx(0.5 + 1.645 * 0.063, abs=0.03)


def test_models_that_never_saw_any_row_have_no_excess() -> None:
    # The models differ from the Retrains by their recipe, on all rows alike.
    found = [
        excess_auc(Arm(normal_arm(0.8, seed).values, random_halves(seed)), normal_arm(0, 50 + seed))
        for seed in range(20)
    ]
    excess = np.array([each.excess for each in found])
    assert min(each.unseen for each in found) > 0.65
    assert excess.mean() == pytest.approx(0, abs=4 * excess.std() / math.sqrt(20))


def test_remembered_rows_have_an_excess() -> None:
    learned = random_halves(0)
    values = normal_arm(0.4, 1).values + 0.4 * learned
    found = excess_auc(Arm(values, learned), normal_arm(0, 2))
    # Φ(0.8 / √2) − Φ(0.4 / √2) = 0.714 − 0.611.
    assert found.excess == pytest.approx(0.103, abs=0.03)


def test_a_population_of_larger_variance_is_found() -> None:
    wide = normal_arm(0, 1)
    spread = Arm.whole(wide.values.mean(axis=0) + 3 * (wide.values - wide.values.mean(axis=0)))
    assert auc_of(spread, normal_arm(0, 2)) > 0.65


def test_a_model_that_diverged_is_refused() -> None:
    values = normal_arm(0, 1).values
    values[3, 5] = np.nan
    with pytest.raises(ValueError, match=r"1 of .* models diverged"):
        Arm.whole(values)


def test_values_outside_the_arm_do_not_count() -> None:
    taken = np.tile(np.array([[True, False], [False, True]]), (32, 25))
    noise = normal_arm(0, 1)
    planted = np.where(taken, noise.values, 1e6)
    assert auc_of(Arm(planted, taken), normal_arm(0, 2)) == pytest.approx(0.5, abs=0.05)


def test_too_few_runs_are_refused() -> None:
    with pytest.raises(ValueError, match="an example has 15 runs"):
        auc_of(normal_arm(0, 1, runs=15), normal_arm(0, 2))


def test_arms_of_different_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="must have the same rows"):
        auc_of(normal_arm(0, 1, rows=4), normal_arm(0, 2, rows=5))


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
