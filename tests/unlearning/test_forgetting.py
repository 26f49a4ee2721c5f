"""Simple figures of forgetting, by hand."""

import math

import pytest
import torch

from unlearning.audit.forgetting import confidence, label_odds, retrain_relative


def test_confidence_by_hand() -> None:
    assert confidence(torch.tensor([[math.log(3), 0.0]])).item() == pytest.approx(0.75)


def test_label_odds_by_hand_and_finite_where_the_model_is_sure() -> None:
    logits = torch.tensor([[math.log(3), 0.0], [2000.0, 0.0]])
    odds = label_odds(logits, torch.tensor([0, 0]))
    assert odds.tolist() == pytest.approx([math.log(3), 2000.0])


def test_label_odds_of_nine_tenths() -> None:
    logits = torch.tensor([0.9, 0.06, 0.04]).log()
    assert label_odds(logits, torch.tensor(0)).item() == pytest.approx(2.197225, rel=1e-6)


def test_label_odds_of_many_models_reads_each_row_s_label() -> None:
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 3, 4, 1])
    p = logits.double().softmax(-1)[:, torch.arange(4), labels]
    assert torch.allclose(label_odds(logits, labels), (p / (1 - p)).log())


@pytest.mark.parametrize(
    ("unlearned", "score"), [(0.7, 1.0), (1.0, 0.0), (0.85, 0.5), (0.25, -0.5)]
)
def test_the_way_to_retrain(unlearned: float, score: float) -> None:
    assert retrain_relative(unlearned, 0.7, 1.0, 0.1) == pytest.approx(score)


def test_a_way_within_the_spread_is_none() -> None:
    assert retrain_relative(0.8, 0.7, 0.85, 0.1) is None
    assert retrain_relative(0.7, 0.7, 0.7, 0.0) is None
