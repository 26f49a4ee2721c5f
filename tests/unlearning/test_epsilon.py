"""The ε that an audit of many trials proves: closed forms, ceilings and bounds."""

import math

import numpy as np
import pytest

from unlearning.audit.epsilon import Tally, audited, audited_epsilon


@pytest.mark.parametrize(("trials", "ceiling"), [(50, 2.57), (100, 3.28), (1000, 5.6)])
def test_a_perfect_attack_proves_what_so_many_trials_can(trials: int, ceiling: float) -> None:
    members, others = np.ones(2 * trials), np.zeros(2 * trials)
    found = audited_epsilon(members, others)
    assert found.epsilon == pytest.approx(ceiling, abs=0.02)
    assert found.ceiling == found.epsilon


def test_scores_of_one_kind_prove_nothing() -> None:
    generator = np.random.default_rng(0)
    proved = [
        audited_epsilon(generator.normal(size=400), generator.normal(size=400)).epsilon
        for _ in range(50)
    ]
    assert np.mean(np.array(proved) > 0) <= 0.1


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_randomised_response_is_never_proved_worse_than_it_is(epsilon: float) -> None:
    generator, keep = np.random.default_rng(1), np.exp(epsilon) / (1 + np.exp(epsilon))
    proved = []
    for _ in range(20):
        members = (generator.random(20_000) < keep).astype(float)
        others = (generator.random(20_000) > keep).astype(float)
        proved.append(audited_epsilon(members, others).epsilon)
    assert max(proved) <= epsilon + 0.02
    assert np.mean(proved) > 0.85 * epsilon


def test_delta_is_forgiven() -> None:
    members = np.r_[np.ones(40), np.zeros(960)]
    generator = np.random.default_rng(3)
    assert audited_epsilon(generator.permutation(members), np.zeros(1000)).epsilon > 0
    forgiven = audited_epsilon(generator.permutation(members), np.zeros(1000), delta=0.06)
    assert forgiven.epsilon == 0


def test_three_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="four"):
        audited_epsilon(np.ones(3), np.zeros(8))


def test_a_bound_by_hand() -> None:
    # Of 40 and 40 with 95 %: 0.912 <= TPR where all are hits, FPR <= 0.088 where none is.
    found = audited(Tally(40, 40, 0, 40))
    assert found.epsilon == pytest.approx(math.log(0.9119 / 0.0881), abs=1e-3)
    assert (found.trials, found.confidence) == ((40, 40), 0.95)


def test_pooled_tests_prove_what_one_with_all_their_trials_proves() -> None:
    parts = Tally(9, 10, 1, 12) + Tally(7, 10, 2, 8)
    assert parts == Tally(16, 20, 3, 20)
    assert audited(parts).epsilon > audited(Tally(9, 10, 1, 12)).epsilon


def test_no_hits_prove_nothing() -> None:
    assert audited(Tally(0, 20, 0, 20)).epsilon == 0
