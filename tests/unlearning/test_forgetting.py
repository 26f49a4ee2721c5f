"""Tests of simple forgetting metrics and of the Streisand check."""

import math

import numpy as np
import pytest
import torch

from unlearning.audit.forgetting import (
    entropy_auc,
    label_log_odds,
    predicted_confidence,
    predictive_entropy,
    retrain_relative_score,
    streisand_check,
)

FLAT, SHARP = torch.zeros(40, 2), torch.tensor([[9.0, 0.0]] * 40)
MIXED = torch.tensor([[float(row % 8), 0.0] for row in range(40)])
RETRAINS = [MIXED, MIXED * 1.1]


def test_confidence_by_hand() -> None:
    assert predicted_confidence(torch.tensor([[math.log(3), 0.0]])).item() == pytest.approx(0.75)


def test_log_odds_by_hand_and_finite_for_a_certain_model() -> None:
    logits = torch.tensor([[math.log(3), 0.0], [2000.0, 0.0]])
    odds = label_log_odds(logits, torch.tensor([0, 0]))
    assert odds.tolist() == pytest.approx([math.log(3), 2000.0])


def test_log_odds_of_nine_tenths() -> None:
    logits = torch.tensor([0.9, 0.06, 0.04]).log()
    assert label_log_odds(logits, torch.tensor(0)).item() == pytest.approx(2.197225, rel=1e-6)


def test_log_odds_of_many_models_use_the_label_of_each_row() -> None:
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 3, 4, 1])
    p = logits.double().softmax(-1)[:, torch.arange(4), labels]
    assert torch.allclose(label_log_odds(logits, labels), (p / (1 - p)).log())


@pytest.mark.parametrize(
    ("unlearned", "score"), [(0.7, 1.0), (1.0, 0.0), (0.85, 0.5), (0.25, -0.5)]
)
def test_retrain_relative_score_by_hand(unlearned: float, score: float) -> None:
    assert retrain_relative_score(unlearned, 0.7, 1.0, 0.1) == pytest.approx(score)


def test_no_score_if_the_trained_model_is_within_the_spread() -> None:
    assert retrain_relative_score(0.8, 0.7, 0.85, 0.1) is None
    assert retrain_relative_score(0.7, 0.7, 0.7, 0.0) is None


def test_entropy_by_hand() -> None:
    logits = torch.tensor([[0.0, 0.0], [100.0, 0.0]], requires_grad=True)
    assert predictive_entropy(logits).tolist() == pytest.approx([math.log(2), 0.0])
    assert not predictive_entropy(logits).requires_grad


def test_remembered_rows_have_less_entropy_than_unseen_rows() -> None:
    result = streisand_check(SHARP, FLAT, RETRAINS)
    assert result.auc == 1.0
    assert result.gap < 0
    assert not result.flagged  # the check is for too much entropy


def test_uniform_outputs_are_flagged() -> None:
    result = streisand_check(FLAT, SHARP, RETRAINS)
    assert result.auc == 0.0
    assert result.gap == pytest.approx(
        math.log(2) - sum(float(predictive_entropy(r).mean()) for r in RETRAINS) / 2
    )
    assert result.flagged


def test_a_large_gap_to_retrain_is_flagged() -> None:
    assert streisand_check(FLAT, FLAT, RETRAINS).flagged


def test_rows_as_at_a_retrain_are_not_flagged() -> None:
    result = streisand_check(RETRAINS[0], MIXED, RETRAINS)
    assert result.auc == 0.5
    assert not result.flagged


def test_a_streisand_check_with_one_retrain_is_refused() -> None:
    with pytest.raises(ValueError, match="2 or more"):
        streisand_check(FLAT, FLAT, [MIXED])


def logits_of_entropy(entropy: float, rows: int) -> torch.Tensor:
    """Logits of two classes, of which every row has the entropy ``entropy`` (linearised)."""
    # H(p) of p = 1/2 + d is log 2 − 2 d² up to fourth order, so that normal entropies need small d.
    return torch.tensor([[math.sqrt(8 * (math.log(2) - entropy)), 0.0]] * rows)


@pytest.mark.parametrize("count", [2, 3])
def test_perfect_methods_are_flagged_at_the_stated_rate(count: int) -> None:
    """A perfect method is one more Retrain; the old limit of two deviations flagged 11 % of 3."""
    generator = np.random.default_rng(count)
    runs = 800
    flags = 0
    for _ in range(runs):
        means = math.log(2) - 0.01 + 0.0005 * generator.standard_normal(count + 1)
        ours, *retrains = (logits_of_entropy(each, 2) for each in means)
        flags += streisand_check(ours, FLAT[:2], retrains).flagged
    assert flags / runs == pytest.approx(0.025, abs=0.012)


def test_rows_of_perfect_methods_stand_out_at_the_stated_rate() -> None:
    """Forgotten and unseen rows have the same distribution, and the Retrains leave a wide limit."""
    generator = torch.Generator().manual_seed(1)
    wide = [SHARP[:2], FLAT[:2]]
    runs = 800
    flags = 0
    for _ in range(runs):
        ours, unseen = torch.randn(2, 30, 2, generator=generator)
        flags += streisand_check(ours, unseen, wide).flagged
    assert flags / runs == pytest.approx(0.025, abs=0.012)


def test_the_entropy_auc_is_of_low_entropy() -> None:
    assert entropy_auc(SHARP, FLAT) == 1.0
