"""Tests of gradient ascent: clip, cap and step by hand."""

import math

import pytest
import torch

from unlearning.ascent import ascent_step, clip_factor, knows_nothing


@pytest.mark.parametrize(("squared", "factor"), [(25.0, 0.4), (4.0, 1.0), (1.0, 1.0), (0.0, 1.0)])
def test_clip_shortens_long_gradients_only(squared: float, factor: float) -> None:
    assert clip_factor(squared, 2.0) == pytest.approx(factor)


def test_ascent_climbs() -> None:
    theta = torch.nn.Parameter(torch.tensor([1.0]))
    ascent_step([theta], [torch.tensor([2.0])], 0.5)
    assert theta.tolist() == [2.0]


def test_ascent_stops_at_the_loss_of_a_uniform_guess() -> None:
    assert knows_nothing(math.log(10), 10)
    assert not knows_nothing(math.log(10) - 1e-6, 10)
