"""Tests of the forgetting score: values by hand, its limits, and the redundant KL term."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.objectives import forgetting_scores, softmax_entropy

# computed by hand: logits (2, 1, 0), ω = 2
LOGITS = [[2.0, 1.0, 0.0]]
P = [0.665241, 0.244728, 0.090031]
SLOPE = [-1.130350, 0.563081, 0.567268]


def doubles(rows: list[list[float]]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64, requires_grad=True)


def slope(logits: Tensor) -> Tensor:
    [gradient] = torch.autograd.grad(forgetting_scores(logits, 2.0).sum(), logits)
    return gradient


def test_score_of_three_logits_by_hand() -> None:
    logits = doubles(LOGITS)
    assert logits.softmax(1)[0].tolist() == pytest.approx(P, abs=5e-7)
    assert softmax_entropy(logits).item() == pytest.approx(0.832396, abs=5e-7)
    assert forgetting_scores(logits, 2.0).item() == pytest.approx(1.132358, abs=1e-6)


def test_gradient_of_three_logits_by_hand() -> None:
    gradient = slope(doubles(LOGITS))[0]
    assert gradient.tolist() == pytest.approx(SLOPE, abs=1e-6)
    assert gradient.sum().item() == pytest.approx(0.0, abs=1e-12)


def test_score_is_entropy_minus_kl_to_uniform_as_printed() -> None:
    p = doubles(LOGITS).softmax(1)
    h = -(p * p.log()).sum()
    kl = (p * (p * 3).log()).sum()
    assert forgetting_scores(doubles(LOGITS), 2.0).item() == pytest.approx((2.0 * (h - kl)).item())


def test_uniform_outputs_have_the_largest_score_and_no_gradient() -> None:
    logits = doubles([[0.3, 0.3, 0.3, 0.3]])
    assert forgetting_scores(logits, 2.0).item() == pytest.approx(2.0 * math.log(4))
    assert slope(logits).abs().max().item() < 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_hot_outputs_have_the_smallest_score_and_a_finite_gradient(dtype: torch.dtype) -> None:
    logits = torch.tensor([[1e4, 0.0, -1e4]], dtype=dtype, requires_grad=True)
    assert forgetting_scores(logits, 2.0).item() == pytest.approx(-2.0 * math.log(3))
    assert torch.isfinite(slope(logits)).all()


@given(st.lists(st.floats(-1e5, 1e5), min_size=2, max_size=6), st.floats(0.1, 20.0))
def test_score_stays_in_its_range(logits: list[float], weight: float) -> None:
    bound = weight * math.log(len(logits))
    score = forgetting_scores(doubles([logits]), weight).item()
    assert -bound - 1e-9 <= score <= bound + 1e-9
