"""Tests of the threshold policies: values by hand, and refused thresholds."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlearning.objectives import forgetting_scores
from unlearning.thresholds import (
    ScoreLevel,
    class_matched_level,
    heldout_threshold,
    lowest_threshold,
    proxy_threshold,
    uniform_threshold,
)


def test_uniform_is_a_fraction_of_the_largest_score() -> None:
    assert uniform_threshold(10, 2.0) == pytest.approx(0.95 * 2.0 * math.log(10))


def test_reference_scores_are_averaged() -> None:
    assert proxy_threshold(torch.tensor([-3.0, -1.0]), 10, 2.0) == pytest.approx(-2.0)


def test_heldout_is_margin_standard_errors_below_the_mean() -> None:
    assert heldout_threshold(ScoreLevel(-2.0, 0.25), 10, 2.0) == pytest.approx(-2.0)
    assert heldout_threshold(ScoreLevel(-2.0, 0.25), 10, 2.0, margin=3.0) == pytest.approx(-2.75)


def test_heldout_is_never_below_the_smallest_score() -> None:
    assert heldout_threshold(ScoreLevel(-1.0, 9.0), 10, 2.0, margin=3.0) == pytest.approx(
        -2.0 * math.log(10)
    )


def test_classes_without_heldout_rows_are_left_out() -> None:
    # Wanted classes are 0, 0, 1, 2; class 2 has no row, so the weights are 2/3 and 1/3.
    scores, truth = torch.tensor([-3.0, -1.0, 4.0]), torch.tensor([0, 0, 1])
    level = class_matched_level(scores, truth, torch.tensor([0, 0, 1, 2]), compared=4)
    assert level.mean == pytest.approx(2 / 3 * -2.0 + 1 / 3 * 4.0)
    # Class 0 has variance 1 and weight 2/3: over two held-out rows, and over four rows of D_u.
    assert level.error == pytest.approx(math.sqrt((2 / 3) ** 2 / 2 + 2 / 3 / 4))


def test_no_heldout_row_of_the_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="no class of the rows to forget has held-out rows"):
        class_matched_level(torch.tensor([1.0]), torch.tensor([0]), torch.tensor([1]), 1)


def test_the_lowest_threshold_is_the_smallest_score() -> None:
    assert lowest_threshold(10, 2.0) == pytest.approx(-2.0 * math.log(10))


def test_factor_scales_the_entropy_behind_the_score() -> None:
    # S = 2 (2 H − log 10) = −2 means H = (log 10 − 1) / 2; half of it gives S = 2 (H − log 10).
    entropy = (math.log(10) - 1.0) / 2.0
    expected = 2.0 * (entropy - math.log(10))
    assert proxy_threshold(torch.tensor([-2.0]), 10, 2.0, factor=0.5) == pytest.approx(expected)


def test_the_factor_is_limited_by_uniform_outputs() -> None:
    assert proxy_threshold(torch.tensor([1.0]), 2, 2.0, factor=9.0) == pytest.approx(
        2.0 * math.log(2)
    )


def test_a_certain_reference_gives_the_smallest_threshold() -> None:
    scores = forgetting_scores(torch.tensor([[1e4, 0.0]]), 2.0)
    assert proxy_threshold(scores, 2, 2.0) == pytest.approx(-2.0 * math.log(2))


@given(st.lists(st.floats(-50, 50), min_size=3, max_size=3), st.floats(0.1, 9), st.floats(0, 5))
def test_the_threshold_of_possible_scores_is_always_possible(
    logits: list[float], weight: float, factor: float
) -> None:
    scores = forgetting_scores(torch.tensor([logits], dtype=torch.float64), weight)
    assert abs(proxy_threshold(scores, 3, weight, factor)) <= weight * math.log(3) * (1 + 1e-6)


def test_scores_of_another_weight_are_refused() -> None:
    with pytest.raises(ValueError, match=r"'heldout' gave 40\.0.*must be in"):
        heldout_threshold(ScoreLevel(40.0, 0.0), 10, 2.0)


def test_nan_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="gave nan"):
        proxy_threshold(torch.tensor([math.nan]), 10, 2.0)


def test_a_fraction_beyond_uniform_is_refused() -> None:
    with pytest.raises(ValueError, match="'uniform' gave"):
        uniform_threshold(10, 2.0, fraction=1.1)
