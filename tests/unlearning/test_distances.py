"""Distances of outputs and of representations, by hand."""

import math

import pytest
import torch

from unlearning.audit.costs import fedora_payload, step_payload
from unlearning.audit.divergence import agreement, total_variation
from unlearning.audit.representation import linear_cka

EVEN, LEANING = torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.75, 0.25]]).log()


def test_total_variation_by_hand() -> None:
    assert total_variation(EVEN, LEANING) == pytest.approx(0.25)
    assert total_variation(LEANING, LEANING) == 0.0


def test_agreement_is_of_the_predicted_class() -> None:
    left = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    right = torch.tensor([[3.0, 2.0], [2.0, 0.0]])
    assert agreement(left, right) == 0.5


def test_cka_does_not_see_rotations_and_scales() -> None:
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    turn = torch.tensor([[math.cos(1.0), -math.sin(1.0)], [math.sin(1.0), math.cos(1.0)]])
    assert linear_cka(x, 3 * x @ turn + 5) == pytest.approx(1.0, abs=1e-6)


def test_cka_by_hand() -> None:
    # Centred columns that are orthogonal share nothing; a constant one has no shape.
    x, y = (
        torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]),
        torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]),
    )
    assert linear_cka(x, y) == pytest.approx(0.0)
    assert linear_cka(x, torch.ones(4, 1)) is None


def test_payload_by_the_formula() -> None:
    assert step_payload(32, 16) == 4096
    assert fedora_payload({"left": 16, "right": 8}, 100, 48) == {"left": 18_944, "right": 9_472}
