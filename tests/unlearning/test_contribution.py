"""ICO-like's contribution by hand."""

import pytest

from unlearning.contribution import Contribution

PLAN = Contribution(step=2.0, share=0.25, limit=0.1)


def test_it_is_in_proportion_to_the_rows() -> None:
    # 2 · 1/4 = 0.5, and 0.5 · ‖(3, 4)‖ = 2.5 is within 0.1 · 25.
    assert PLAN.factor(25.0, 625.0) == 0.5


def test_it_is_clipped_to_a_part_of_the_parameters() -> None:
    # 0.1 · ‖θ₀‖ = 0.1 · 10 = 1, so the factor is 1 / 5.
    assert PLAN.factor(25.0, 100.0) == pytest.approx(0.2)


def test_without_a_gradient_nothing_is_divided_by_zero() -> None:
    assert PLAN.factor(0.0, 100.0) == 0.5
