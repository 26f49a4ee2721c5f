"""Tests of calibration: the factor on the logits."""

import math

import pytest
import torch

from unlearning.calibration import calibration_factor, entropy_factor
from unlearning.objectives import softmax_entropy


def test_a_known_factor_is_found_again() -> None:
    logits = torch.randn(40, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    target = softmax_entropy(1.7 * logits).mean().item()
    assert entropy_factor(logits, target) == pytest.approx(1.7, rel=1e-9)


def test_two_classes_by_hand() -> None:
    # H(p) of logits (c, 0) with c = log 3 is that of p = (3/4, 1/4).
    target = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    factor = entropy_factor(torch.tensor([[1.0, 0.0]]), target)
    assert factor == pytest.approx(math.log(3), rel=1e-6)


@pytest.mark.parametrize(("target", "factor"), [(0.0, 2.0), (2.0, 1 / 2)])
def test_an_unreachable_entropy_gives_the_nearest_factor(target: float, factor: float) -> None:
    assert entropy_factor(torch.tensor([[1.0, 0.0, 0.5]]), target) == pytest.approx(factor)


def test_a_significant_difference_is_corrected() -> None:
    logits = torch.randn(400, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    assert calibration_factor(logits, 1.3 * logits, margin=2.0) == pytest.approx(1.3, rel=1e-9)


def test_an_insignificant_difference_is_left() -> None:
    first, second = torch.randn(2, 400, 5, generator=torch.Generator().manual_seed(3))
    assert calibration_factor(first, second, margin=2.0) == 1.0
    assert calibration_factor(first, second, margin=0.0) != 1.0


def test_equal_models_have_factor_one() -> None:
    logits = torch.randn(30, 3, generator=torch.Generator().manual_seed(4))
    assert calibration_factor(logits, logits, margin=0.0) == 1.0
