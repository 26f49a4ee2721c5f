"""Tests of the vertical baselines: gradient ascent, random relabelling and ICO-like."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlearning.baselines import (
    Contribution,
    ascent_step,
    clip_factor,
    reaches_uniform_loss,
    wrong_labels,
)

ICO_LIKE = Contribution(step=2.0, share=0.25, limit=0.1)


@pytest.mark.parametrize(("squared", "factor"), [(25.0, 0.4), (4.0, 1.0), (1.0, 1.0), (0.0, 1.0)])
def test_only_long_gradients_are_clipped(squared: float, factor: float) -> None:
    assert clip_factor(squared, 2.0) == pytest.approx(factor)


def test_an_ascent_step_by_hand() -> None:
    theta = torch.nn.Parameter(torch.tensor([1.0]))
    ascent_step([theta], [torch.tensor([2.0])], 0.5)
    assert theta.tolist() == [2.0]


def test_ascent_stops_at_the_loss_of_a_uniform_guess() -> None:
    assert reaches_uniform_loss(math.log(10), 10)
    assert not reaches_uniform_loss(math.log(10) - 1e-6, 10)


def random_words(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def test_wrong_labels_by_hand() -> None:
    # The shift is 1 + word mod 2, so the labels are shifted by 1, 2, 1 and 2.
    result = wrong_labels(torch.tensor([0, 0, 2, 1]), random_words(4, 7, 0, 2**64 - 1), 3)
    assert result.tolist() == [1, 2, 0, 0]


def test_with_two_classes_the_wrong_label_is_the_other_class() -> None:
    assert wrong_labels(torch.tensor([0, 1]), random_words(5, 6), 2).tolist() == [1, 0]


@given(st.integers(2, 9), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_every_label_changes_and_is_a_class(classes: int, drawn: list[int]) -> None:
    labels = torch.arange(len(drawn)) % classes
    result = wrong_labels(labels, random_words(*drawn), classes)
    assert (result != labels).all()
    assert ((result >= 0) & (result < classes)).all()


def test_relabelling_with_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="2 or more classes"):
        wrong_labels(torch.tensor([0]), random_words(1), 1)


def test_the_contribution_is_proportional_to_the_share_of_rows() -> None:
    # 2 · 1/4 = 0.5, and 0.5 · ‖(3, 4)‖ = 2.5 is within 0.1 · 25.
    assert ICO_LIKE.factor(25.0, 625.0) == 0.5


def test_the_contribution_is_clipped_to_a_share_of_the_parameters() -> None:
    # 0.1 · ‖θ₀‖ = 0.1 · 10 = 1, so the factor is 1 / 5.
    assert ICO_LIKE.factor(25.0, 100.0) == pytest.approx(0.2)


def test_the_contribution_of_a_zero_gradient_is_finite() -> None:
    assert ICO_LIKE.factor(0.0, 100.0) == 0.5
