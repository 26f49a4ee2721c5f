"""Tests of the threshold policies: values by hand, and that no illegal γ leaves them."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlearning.objectives import forgetting_scores
from unlearning.thresholds import Level, class_matched, heldout, proxy, uniform


def test_uniform_is_a_fraction_of_the_largest_score() -> None:
    assert uniform(10, 2.0) == pytest.approx(0.95 * 2.0 * math.log(10))


def test_reference_scores_are_averaged() -> None:
    assert proxy(torch.tensor([-3.0, -1.0]), 10, 2.0) == pytest.approx(-2.0)


def test_heldout_is_so_many_standard_errors_below_the_level() -> None:
    assert heldout(Level(-2.0, 0.25), 10, 2.0) == pytest.approx(-2.0)
    assert heldout(Level(-2.0, 0.25), 10, 2.0, margin=3.0) == pytest.approx(-2.75)


def test_heldout_is_never_below_the_smallest_score() -> None:
    assert heldout(Level(-1.0, 9.0), 10, 2.0, margin=3.0) == pytest.approx(-2.0 * math.log(10))


def test_classes_without_heldout_rows_are_stood_for_by_the_others() -> None:
    # Classes 0, 0, 1, 2 are to go; of 2 there is no row: two thirds of class 0, one of class 1.
    scores, truth = torch.tensor([-3.0, -1.0, 4.0]), torch.tensor([0, 0, 1])
    level = class_matched(scores, truth, torch.tensor([0, 0, 1, 2]))
    assert level.mean == pytest.approx(2 / 3 * -2.0 + 1 / 3 * 4.0)
    assert level.error == pytest.approx(math.sqrt((2 / 3) ** 2 * 1.0 / 2))


def test_no_heldout_row_of_the_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="no held-out row has a class"):
        class_matched(torch.tensor([1.0]), torch.tensor([0]), torch.tensor([1]))


def test_factor_scales_the_entropy_behind_the_score() -> None:
    # S = 2 (2 H − log 10) = −2 means H = (log 10 − 1) / 2; half of it gives S = 2 (H − log 10).
    entropy = (math.log(10) - 1.0) / 2.0
    expected = 2.0 * (entropy - math.log(10))
    assert proxy(torch.tensor([-2.0]), 10, 2.0, factor=0.5) == pytest.approx(expected)


def test_factor_cannot_ask_for_more_than_uniform() -> None:
    assert proxy(torch.tensor([1.0]), 2, 2.0, factor=9.0) == pytest.approx(2.0 * math.log(2))


def test_a_sure_reference_gives_the_smallest_threshold() -> None:
    scores = forgetting_scores(torch.tensor([[1e4, 0.0]]), 2.0)
    assert proxy(scores, 2, 2.0) == pytest.approx(-2.0 * math.log(2))


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.floats(0.1, 9), st.floats(0, 5))
def test_threshold_of_honest_scores_is_always_legal(
    logits: list[float], weight: float, factor: float
) -> None:
    scores = forgetting_scores(torch.tensor([logits], dtype=torch.float64), weight)
    assert abs(proxy(scores, 3, weight, factor)) <= weight * math.log(3) * (1 + 1e-6)


def test_scores_of_another_weight_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'heldout' gave 40\.0.*legal is"):
        heldout(Level(40.0, 0.0), 10, 2.0)


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="gave nan"):
        proxy(torch.tensor([math.nan]), 10, 2.0)


def test_a_fraction_beyond_uniform_is_refused() -> None:
    with pytest.raises(ValueError, match="'uniform' gave"):
        uniform(10, 2.0, fraction=1.1)
