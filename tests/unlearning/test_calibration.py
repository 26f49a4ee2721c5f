"""Tests of calibration: median log-odds of the predicted class, and the factor on the logits."""

import math

import pytest
import torch
from torch import Tensor

from unlearning.calibration import (
    calibration_factor,
    confidence_factor,
    median_confidence,
    top_log_odds,
)
from unlearning.objectives import softmax_entropy


def normal(rows: int, classes: int, seed: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, classes, generator=generator, dtype=torch.float64)


def test_log_odds_of_the_predicted_class_by_hand() -> None:
    logits = torch.tensor([[0.1, 0.7, 0.2], [0.25, 0.25, 0.5]]).log()
    assert top_log_odds(logits).tolist() == pytest.approx([math.log(7 / 3), 0.0], abs=1e-6)
    certain = torch.tensor([[0.0, 3000.0]])
    assert top_log_odds(certain).tolist() == [3000.0]


def test_median_of_an_even_number_of_rows_is_the_middle_of_two() -> None:
    logits = torch.tensor([[1.0, 0.0], [0.0, 2.0], [5.0, 0.0], [9.0, 0.0]])
    assert median_confidence(logits) == pytest.approx(3.5)


def test_two_classes_by_hand() -> None:
    # With two classes the log-odds are c times the difference of the logits.
    logits = torch.tensor([[1.0, 0.0], [0.0, 4.0], [0.0, 9.0]])
    assert confidence_factor(logits, 3.0) == pytest.approx(0.75, rel=1e-9)


@pytest.mark.parametrize("factor", [0.02, 0.6, 1.0, 1.7, 40.0])
def test_a_known_factor_is_found_again(factor: float) -> None:
    logits = normal(41, 5, seed=1)
    target = median_confidence(factor * logits)
    assert confidence_factor(logits, target) == pytest.approx(factor, rel=1e-9)


@pytest.mark.parametrize(("target", "factor"), [(1e9, 1000.0), (-5.0, 1 / 1000)])
def test_an_unreachable_confidence_gives_the_nearest_factor(target: float, factor: float) -> None:
    logits = torch.tensor([[1.0, 0.0, 0.5]])
    assert confidence_factor(logits, target) == pytest.approx(factor)


@pytest.mark.parametrize(("factor", "expected"), [(1.3, 1.3), (5.0, 2.0), (0.1, 0.5)])
def test_factor_of_a_method_is_at_most_two(factor: float, expected: float) -> None:
    logits = normal(400, 5, seed=2)
    assert calibration_factor(logits, factor * logits) == pytest.approx(expected, rel=1e-9)


def test_equal_models_have_factor_one() -> None:
    logits = normal(30, 3, seed=4)
    assert calibration_factor(logits, logits) == pytest.approx(1.0, rel=1e-9)


def entropy_factor(logits: Tensor, target: float) -> float:
    """The factor by the rule that this rule replaced: equal mean entropy."""
    low, high = 0.5, 2.0
    for _ in range(40):
        middle = (low + high) / 2
        too_uncertain = float(softmax_entropy(middle * logits).mean()) > target
        low, high = (middle, high) if too_uncertain else (low, middle)
    return (low + high) / 2


def test_factor_from_few_rows_varies_less_than_by_the_mean_entropy() -> None:
    """Draws of 120 rows; both models have the same scale and disagree on single rows.

    As on digits, the log-odds have the mean 6; the true factor is 1.
    """
    medians, entropies = [], []
    for seed in range(60):
        draws = normal(120, 3, seed)
        odds = 6 + 3 * draws[:, :1] + 1.5 * draws[:, 1:]
        one, other = (torch.stack([each, torch.zeros_like(each)], dim=1) for each in odds.T)
        medians.append(math.log(confidence_factor(one, median_confidence(other))))
        target = float(softmax_entropy(other).mean())
        entropies.append(math.log(entropy_factor(one, target)))
    by_median, by_entropy = (float(torch.tensor(each).std()) for each in (medians, entropies))
    assert by_median < 0.7 * by_entropy


def test_three_uncertain_rows_do_not_change_the_factor() -> None:
    """Of 121 confident rows, three become uniform in one model."""
    logits = normal(121, 10, seed=7, scale=8.0)
    doubtful = logits.clone()
    doubtful[top_log_odds(logits).argsort()[:3]] = 0.0
    assert calibration_factor(doubtful, logits) == pytest.approx(1.0, rel=1e-9)
    target = float(softmax_entropy(logits).mean())
    assert entropy_factor(doubtful, target) > 1.05
