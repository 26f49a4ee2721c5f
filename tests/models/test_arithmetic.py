"""Tests of arithmetic on parameters, with numbers computed by hand."""

import math

import pytest
import torch
from torch import nn

from models.arithmetic import (
    all_finite,
    interpolate,
    restore,
    snapshot,
    squared_distance,
    squared_norm,
    take_gradients,
)


def block() -> list[nn.Parameter]:
    return [nn.Parameter(torch.tensor([3.0, 4.0])), nn.Parameter(torch.tensor([[12.0]]))]


def test_squared_norm_by_hand() -> None:
    assert squared_norm(block()) == 169.0


def test_squared_norm_of_nothing_is_zero() -> None:
    assert squared_norm([]) == 0.0


def test_squared_norm_is_summed_in_float64() -> None:
    tensors = [torch.tensor([4096.0]), torch.full((1000,), 1e-2)]
    assert squared_norm(tensors) == pytest.approx(4096.0**2 + 0.1, abs=1e-6)


def test_squared_distance_by_hand() -> None:
    assert squared_distance(block(), [torch.tensor([0.0, 0.0]), torch.tensor([[0.0]])]) == 169.0
    assert squared_distance(block(), block()) == 0.0


def test_distance_of_different_models_is_refused() -> None:
    with pytest.raises(ValueError, match="argument 2"):
        squared_distance(block(), [torch.zeros(2)])


def test_a_snapshot_is_unchanged_by_a_step_and_can_be_restored() -> None:
    parameters = block()
    saved = snapshot(parameters)
    with torch.no_grad():
        parameters[0].add_(1.0)
    assert saved[0].tolist() == [3.0, 4.0]
    restore(parameters, saved)
    assert parameters[0].tolist() == [3.0, 4.0]
    assert parameters[0].requires_grad


def test_restoring_another_models_snapshot_is_refused() -> None:
    with pytest.raises(ValueError, match="the saved tensors are from another model"):
        restore([nn.Parameter(torch.zeros(2))], [torch.zeros(1)])


def test_taken_gradients_are_removed_and_zero_if_unused() -> None:
    used, unused = block()
    torch.autograd.backward(used.square().sum())
    taken = take_gradients([used, unused])
    torch.autograd.backward(used.square().sum())  # does not change the gradients that were taken
    assert taken[0].tolist() == [6.0, 8.0]
    assert taken[1].tolist() == [[0.0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_entry_is_not_finite(bad: float) -> None:
    assert all_finite(block())
    assert not all_finite([*block(), torch.tensor([0.0, bad])])


def test_interpolation_by_hand() -> None:
    theta, other = torch.tensor([1.0, -2.0]), torch.tensor([5.0, 6.0])
    still = torch.tensor([7.0])
    interpolate([theta, still], [other, torch.tensor([0.0])], [0.25, 0.0])
    assert theta.tolist() == [2.0, 0.0]  # 3/4 (1, −2) + 1/4 (5, 6)
    assert still.tolist() == [7.0]


def test_interpolation_refuses_another_model() -> None:
    with pytest.raises(ValueError, match="zip"):
        interpolate([torch.zeros(1)], [], [0.5])
