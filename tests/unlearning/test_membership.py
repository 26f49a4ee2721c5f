"""Tests of membership inference: features, class matching, and attacks on simulated outputs."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from unlearning.audit.membership import (
    Outputs,
    ShadowOutputs,
    _weighted_auc,
    class_matched_rows,
    fit_attack,
    fit_shadow_attack,
    membership_features,
    score_attack,
)


def outputs(rows: int, sharpness: float, seed: int) -> Outputs:
    """Return random outputs whose true class is raised by ``sharpness``."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(3, (rows,), generator=generator)
    logits = torch.randn(rows, 3, generator=generator)
    return Outputs(logits + sharpness * torch.nn.functional.one_hot(labels, 3), labels)


def test_features_by_hand() -> None:
    logits = torch.tensor([[0.2, 0.7, 0.1]]).log()
    [row] = membership_features(Outputs(logits, torch.tensor([0])))
    loss, margin = -math.log(0.2), math.log(0.2 / 0.7)
    entropy = -(0.2 * math.log(0.2) + 0.7 * math.log(0.7) + 0.1 * math.log(0.1))
    assert row.tolist() == pytest.approx([0.7, 0.2, 0.1, loss, margin, entropy, 0.0], abs=1e-6)


def test_features_do_not_depend_on_the_class() -> None:
    first = Outputs(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]))
    second = Outputs(torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([2]))
    np.testing.assert_allclose(membership_features(first), membership_features(second))


def test_a_memorised_forget_set_is_found() -> None:
    attack = fit_attack(outputs(600, 4.0, seed=1), outputs(300, 1.0, seed=2))
    result = score_attack(
        attack, outputs(200, 4.0, seed=3), outputs(200, 1.0, seed=4), np.random.default_rng(0)
    )
    assert result.auc.value > 0.85
    assert result.auc.low < result.auc.value < result.auc.high
    assert result.balanced_accuracy.low > 0.7
    assert (result.members, result.non_members) == (200, 200)


def test_a_forget_set_like_unseen_rows_is_at_chance() -> None:
    attack = fit_attack(outputs(600, 4.0, seed=1), outputs(300, 1.0, seed=2))
    null = score_attack(
        attack, outputs(800, 1.0, seed=5), outputs(800, 1.0, seed=6), np.random.default_rng(0)
    )
    assert null.auc.value == pytest.approx(0.5, abs=0.04)
    assert null.balanced_accuracy.value == pytest.approx(0.5, abs=0.04)


def test_members_are_the_rows_that_the_attack_calls_members() -> None:
    """The fit and the score must agree on which side is 1, and 1 must be the members."""
    attack = fit_attack(outputs(600, 4.0, seed=1), outputs(300, 1.0, seed=2))
    certain = Outputs(torch.tensor([[9.0, 0.0, 0.0]]), torch.tensor([0]))
    wrong = Outputs(torch.tensor([[0.0, 2.0, 0.0]]), torch.tensor([0]))
    chances = [attack.predict_proba(membership_features(each))[0, 1] for each in (certain, wrong)]
    assert chances[0] > 0.9
    assert chances[1] < 0.1
    result = score_attack(
        attack, outputs(150, 4.0, seed=3), outputs(50, 1.0, seed=4), np.random.default_rng(0)
    )
    assert (result.members, result.non_members) == (150, 50)


def test_the_same_generator_gives_the_same_interval() -> None:
    attack = fit_attack(outputs(60, 4.0, seed=1), outputs(60, 1.0, seed=2))
    sides = outputs(50, 2.0, seed=3), outputs(50, 1.0, seed=4)
    first, second = (score_attack(attack, *sides, np.random.default_rng(7)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(("members", "others"), [(4.0, -4.0), (-4.0, 4.0), (0.0, 0.0)])
def test_equal_resamples_of_one_row_are_no_certainty(members: float, others: float) -> None:
    """One row against one row: the AUC is 0, 0.5 or 1 in every resample."""
    attack = fit_attack(outputs(600, 4.0, seed=1), outputs(300, 1.0, seed=2))
    sides = [Outputs(torch.tensor([[x, 0.0, 0.0]]), torch.tensor([0])) for x in (members, others)]
    found = score_attack(attack, *sides, np.random.default_rng(0)).auc
    assert found.value == (0.5 if members == others else float(members > others))
    assert found.low < 0.5 < found.high


def test_groups_of_many_rows_that_do_not_overlap_stand_out() -> None:
    attack = fit_attack(outputs(600, 4.0, seed=1), outputs(300, 1.0, seed=2))
    sides = [outputs(50, sharpness, seed=3) for sharpness in (40.0, -40.0)]
    found = score_attack(attack, *sides, np.random.default_rng(0)).auc
    assert found.value == 1.0
    assert 0.8 < found.low < found.high == 1.0


def class_counts(labels: Tensor) -> list[int]:
    return torch.bincount(labels, minlength=3).tolist()


def test_matched_rows_have_the_class_mix_of_the_forget_set() -> None:
    expected = torch.tensor([0] * 40 + [2] * 20)
    pool = torch.tensor([0] * 20 + [1] * 50 + [2] * 90)
    chosen = class_matched_rows(expected, pool, np.random.default_rng(0))
    assert class_counts(pool[torch.from_numpy(chosen)]) == [20, 0, 10]
    assert len(set(chosen.tolist())) == len(chosen)


def test_matching_never_takes_more_rows_than_were_forgotten() -> None:
    expected, pool = torch.tensor([0, 1, 1]), torch.tensor([0, 1] * 50)
    chosen = class_matched_rows(expected, pool, np.random.default_rng(0))
    assert class_counts(pool[torch.from_numpy(chosen)]) == [1, 2, 0]


def test_a_class_without_held_out_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"classes \[2\]"):
        class_matched_rows(torch.tensor([0, 2]), torch.tensor([0, 1]), np.random.default_rng(0))


def test_weighted_auc_equals_scikit_learns_also_with_ties() -> None:
    generator = np.random.default_rng(3)
    truth = np.repeat(np.array([1, 0]), [40, 60])
    chances = np.round(generator.random(100), 1) + 0.1 * truth
    weights = generator.integers(1, 4, (5, 100)).astype(np.float64)
    expected = [roc_auc_score(truth, chances, sample_weight=row) for row in weights]
    assert _weighted_auc(truth, chances, weights) == pytest.approx(expected, abs=1e-12)


def shadow(seed: int, surer: float) -> ShadowOutputs:
    """Return outputs of a model that is more certain of its members by ``surer``."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (120,), generator=generator)
    logits = torch.randn(120, 3, generator=generator)
    logits[torch.arange(120), labels] += 2.0
    logits[:60][torch.arange(60), labels[:60]] += surer
    return ShadowOutputs(Outputs(logits[:60], labels[:60]), Outputs(logits[60:], labels[60:]))


def test_the_shadow_attack_finds_members_of_another_model() -> None:
    attack = fit_shadow_attack([shadow(seed, 3.0) for seed in range(4)])
    target = shadow(9, 3.0)
    result = score_attack(attack, target.members, target.others, np.random.default_rng(0))
    assert result.auc.value > 0.85
    assert result.tpr <= result.auc.value


def test_the_shadow_attack_is_at_chance_on_a_model_that_does_not_remember() -> None:
    attack = fit_shadow_attack([shadow(seed, 3.0) for seed in range(4)])
    target = shadow(9, 0.0)
    result = score_attack(attack, target.members, target.others, np.random.default_rng(0))
    assert abs(result.auc.value - 0.5) < 0.12


def test_fewer_than_four_shadows_are_refused() -> None:
    with pytest.raises(ValueError, match="4 or more models, got 3"):
        fit_shadow_attack([shadow(seed, 1.0) for seed in range(3)])
