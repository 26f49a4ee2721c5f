"""The unlearning cross entropy, by hand and at its limits."""

import math

import pytest
import torch
from torch import Tensor

from unlearning.horizontal.unlearning_loss import unlearning_cross_entropy


def slope(logits: list[float], label: int = 0) -> tuple[float, Tensor]:
    z = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
    loss = unlearning_cross_entropy(z, torch.tensor([label])).sum()
    [gradient] = torch.autograd.grad(loss, z)
    return loss.item(), gradient[0]


def test_loss_and_gradient_of_three_logits_by_hand() -> None:
    loss, gradient = slope([2.0, 1.0, 0.0])
    assert loss == pytest.approx(0.404396, abs=5e-7)
    assert gradient.tolist() == pytest.approx([0.166843, -0.121972, -0.044871], abs=5e-7)


def test_the_steepest_place_is_at_two_minus_the_root_of_two() -> None:
    p = 2 - math.sqrt(2)
    _, gradient = slope([math.log(p / (1 - p)), 0.0])
    assert p == pytest.approx(0.585786, abs=5e-7)
    assert gradient[0].item() == pytest.approx(0.171573, abs=5e-7)
    assert all(slope([each, 0.0])[1][0] < gradient[0] for each in (-3.0, 0.0, 0.5, 3.0))


@pytest.mark.parametrize("sure", [-2000.0, -50.0, 50.0, 2000.0])
def test_it_is_bounded_and_stays_finite_where_the_model_is_sure(sure: float) -> None:
    loss, gradient = slope([sure, 0.0])
    assert loss == pytest.approx(math.log(2) if sure > 0 else 0.0, abs=1e-12)
    assert gradient.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)
