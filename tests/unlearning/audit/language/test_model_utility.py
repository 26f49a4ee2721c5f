"""Tests of model utility: the harmonic mean of nine, and what one zero does to it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlearning.audit.language.model_utility import Answers, harmonic_mean, model_utility

NINE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]


def utility(nine: list[float]) -> float:
    sets = [
        Answers(probability=p, rouge=r, truth_ratio=t)
        for p, r, t in zip(nine[0::3], nine[1::3], nine[2::3], strict=True)
    ]
    return model_utility(*sets)


def test_nine_figures_by_hand() -> None:
    assert utility(NINE) == pytest.approx(0.318137, abs=5e-7)
    assert utility(NINE) == pytest.approx(9 / sum(1 / x for x in NINE), rel=1e-12)


@pytest.mark.parametrize("place", range(9))
def test_one_zero_is_not_dropped(place: int) -> None:
    nine = [*NINE]
    nine[place] = 0.0
    assert utility(nine) == 0.0


def test_figures_next_to_zero_do_not_overflow() -> None:
    assert utility([5e-324] * 9) == 0.0


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_figure_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
        utility([value, *NINE[1:]])


def test_no_figures_are_refused() -> None:
    with pytest.raises(ValueError, match="one at least"):
        harmonic_mean([])


@given(st.lists(st.floats(1e-6, 1.0), min_size=9, max_size=9))
def test_utility_lies_between_the_least_figure_and_their_mean(nine: list[float]) -> None:
    assert min(nine) * (1 - 1e-9) <= utility(nine) <= sum(nine) / 9 * (1 + 1e-9)
