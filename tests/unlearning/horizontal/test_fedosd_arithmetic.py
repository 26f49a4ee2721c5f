"""Tests of FedOSD: unlearning loss, orthogonal descent, projection, and common descent."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.horizontal.fedosd import (
    Projection,
    client_cosines,
    common_descent,
    orthogonal_steepest_descent,
    project_recovery,
    unlearning_cross_entropy,
)


def doubles(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


OTHERS = doubles((1, 0, 0), (1, 1, 0))
LEAVING = doubles((1, 2, 2))[0]


def test_the_direction_by_hand() -> None:
    """r = (0, 0, 2); d has the norm of g_u, while the printed factor gives its square."""
    result = orthogonal_steepest_descent(LEAVING, OTHERS)
    assert result.direction is not None
    assert result.direction.tolist() == pytest.approx([0, 0, 3])
    assert (result.kept, result.cosine) == (pytest.approx(2 / 3), pytest.approx(0, abs=1e-12))
    assert float(LEAVING @ result.direction) > 0


def test_no_direction_if_the_leaving_gradient_is_in_the_others_span() -> None:
    result = orthogonal_steepest_descent(doubles((3, 5, 0))[0], OTHERS)
    assert result.direction is None
    assert result.kept == pytest.approx(0, abs=1e-12)
    assert orthogonal_steepest_descent(torch.zeros(3), OTHERS).direction is None


def test_equal_and_zero_gradients_of_clients_are_allowed() -> None:
    same = doubles((1, 0, 0), (2, 0, 0), (0, 0, 0))
    result = orthogonal_steepest_descent(LEAVING, same)
    assert result.direction is not None
    assert result.direction.tolist() == pytest.approx([0, 3 / 2**0.5, 3 / 2**0.5])


@given(st.integers(0, 10_000), st.integers(1, 9), st.sampled_from([1e-6, 1.0, 1e6]))
def test_no_client_is_in_conflict_with_the_direction(seed: int, count: int, size: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count + 1, 300, generator=generator) + 1  # the gradients are similar
    others, leaving = drawn[1:] * size, drawn[0]
    result = orthogonal_steepest_descent(leaving, others)
    assert result.direction is not None
    assert result.cosine < 1e-6
    assert float(client_cosines(others, result.direction).abs().max()) < 1e-6
    assert float(result.direction.norm()) == pytest.approx(float(leaving.norm()), rel=1e-5)
    assert float(result.direction @ leaving) > 0


@pytest.mark.parametrize(
    ("gradient", "project", "expected"),
    [
        ((3.0, 4.0), "conditional", [0, 5]),
        ((-3.0, 4.0), "conditional", [-3, 4]),
        ((-3.0, 4.0), "always", [0, 5]),
        ((3.0, 4.0), "none", [3, 4]),
        ((3.0, 0.0), "conditional", [0, 0]),
    ],
)
def test_the_part_towards_the_old_model_is_removed(
    gradient: tuple[float, float], project: Projection, expected: list[float]
) -> None:
    result = project_recovery(doubles(gradient)[0], doubles((1, 0))[0], project)
    assert result.tolist() == pytest.approx(expected)


def test_without_a_change_nothing_is_projected() -> None:
    assert project_recovery(doubles((3, 4))[0], torch.zeros(2)).tolist() == [3, 4]


def test_common_descent_by_hand() -> None:
    # The nearest point to 0 of the segment from (2, 0) to (0, 1) is (0.4, 0.8).
    assert common_descent(doubles((2, 0), (0, 1))).tolist() == pytest.approx([0.4, 0.8], abs=1e-6)
    assert common_descent(doubles((1, 0), (3, 0))).tolist() == pytest.approx([1, 0])
    assert common_descent(doubles((1, 0), (-1, 0))).tolist() == pytest.approx([0, 0])


@given(st.integers(0, 10_000))
def test_common_descent_lowers_every_loss(seed: int) -> None:
    gradients = torch.randn(4, 20, generator=torch.Generator().manual_seed(seed)) + 0.5
    shortest = common_descent(gradients).double()
    square = float(shortest.square().sum())
    assert float((gradients.double() @ shortest).min()) >= square * 0.99 - 1e-9


def slope(logits: list[float], label: int = 0) -> tuple[float, Tensor]:
    z = torch.tensor([logits], dtype=torch.float64, requires_grad=True)
    loss = unlearning_cross_entropy(z, torch.tensor([label])).sum()
    [gradient] = torch.autograd.grad(loss, z)
    return loss.item(), gradient[0]


def test_unlearning_loss_and_gradient_by_hand() -> None:
    loss, gradient = slope([2.0, 1.0, 0.0])
    assert loss == pytest.approx(0.404396, abs=5e-7)
    assert gradient.tolist() == pytest.approx([0.166843, -0.121972, -0.044871], abs=5e-7)


def test_the_unlearning_loss_is_steepest_at_two_minus_root_two() -> None:
    p = 2 - math.sqrt(2)
    _, gradient = slope([math.log(p / (1 - p)), 0.0])
    assert p == pytest.approx(0.585786, abs=5e-7)
    assert gradient[0].item() == pytest.approx(0.171573, abs=5e-7)
    assert all(slope([each, 0.0])[1][0] < gradient[0] for each in (-3.0, 0.0, 0.5, 3.0))


@pytest.mark.parametrize("logit", [-2000.0, -50.0, 50.0, 2000.0])
def test_the_unlearning_loss_is_bounded_for_a_certain_model(logit: float) -> None:
    loss, gradient = slope([logit, 0.0])
    assert loss == pytest.approx(math.log(2) if logit > 0 else 0.0, abs=1e-12)
    assert gradient.tolist() == pytest.approx([0.0, 0.0], abs=1e-12)
