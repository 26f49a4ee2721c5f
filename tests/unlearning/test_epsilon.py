"""Tests of the lower bound of ε: values by hand, ceilings, and known mechanisms."""

import math

import numpy as np
import pytest
from split_audit import split_epsilon_bound

from unlearning.audit.epsilon import AttackCounts, epsilon_bound


@pytest.mark.parametrize(("trials", "ceiling"), [(50, 2.57), (100, 3.28), (1000, 5.6)])
def test_a_perfect_attack_reaches_the_ceiling_of_its_trials(trials: int, ceiling: float) -> None:
    members, others = np.ones(2 * trials), np.zeros(2 * trials)
    result = split_epsilon_bound(members, others)
    assert result.epsilon == pytest.approx(ceiling, abs=0.02)
    assert result.ceiling == result.epsilon


def test_equal_scores_give_no_bound() -> None:
    generator = np.random.default_rng(0)
    bounds = [
        split_epsilon_bound(generator.normal(size=400), generator.normal(size=400)).epsilon
        for _ in range(50)
    ]
    assert np.mean(np.array(bounds) > 0) <= 0.1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_bound_of_randomised_response_is_below_its_epsilon(epsilon: float) -> None:
    generator, keep = np.random.default_rng(1), np.exp(epsilon) / (1 + np.exp(epsilon))
    bounds = []
    for _ in range(20):
        members = (generator.random(20_000) < keep).astype(float)
        others = (generator.random(20_000) > keep).astype(float)
        bounds.append(split_epsilon_bound(members, others).epsilon)
    assert max(bounds) <= epsilon + 0.02
    assert np.mean(bounds) > 0.85 * epsilon


def test_hits_below_delta_give_no_bound() -> None:
    members = np.r_[np.ones(40), np.zeros(960)]
    generator = np.random.default_rng(3)
    assert split_epsilon_bound(generator.permutation(members), np.zeros(1000)).epsilon > 0
    with_delta = split_epsilon_bound(generator.permutation(members), np.zeros(1000), delta=0.06)
    assert with_delta.epsilon == 0


def test_a_bound_by_hand() -> None:
    # Of 40 and 40 with 95 %: 0.912 <= TPR where all are hits, FPR <= 0.088 where none is.
    result = epsilon_bound(AttackCounts(40, 40, 0, 40))
    assert result.epsilon == pytest.approx(math.log(0.9119 / 0.0881), abs=1e-3)
    assert (result.trials, result.confidence) == ((40, 40), 0.95)


def test_pooled_counts_give_a_larger_bound() -> None:
    parts = AttackCounts(9, 10, 1, 12) + AttackCounts(7, 10, 2, 8)
    assert parts == AttackCounts(16, 20, 3, 20)
    assert epsilon_bound(parts).epsilon > epsilon_bound(AttackCounts(9, 10, 1, 12)).epsilon


def test_no_hits_give_no_bound() -> None:
    assert epsilon_bound(AttackCounts(0, 20, 0, 20)).epsilon == 0
