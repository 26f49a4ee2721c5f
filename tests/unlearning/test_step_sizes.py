"""Tests of the adaptive step sizes: Eq 29-33 by hand, and the bound of σ."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlearning.step_sizes import StepRule, StepSizes

positive = st.floats(1e-6, 1e6)


def test_first_change_adjusts_nothing() -> None:
    steps = StepSizes(primal=0.1, dual=0.2).adapt(9.0)
    assert (steps.primal, steps.dual, steps.change) == (0.1, 0.2, 3.0)


@pytest.mark.parametrize(
    ("change", "factor"),
    [(0.79, 1.1), (0.81, 1.0), (1.0, 1.0), (1.49, 1.0), (1.51, 0.5)],
)
def test_both_steps_follow_the_ratio_of_changes(change: float, factor: float) -> None:
    steps = StepSizes(primal=0.1, dual=0.2).adapt(1.0).adapt(change**2)
    assert steps.primal == pytest.approx(0.1 * factor)
    assert steps.dual == pytest.approx(0.2 * factor)


def test_a_change_of_zero_adjusts_nothing() -> None:
    steps = StepSizes(primal=0.1, dual=0.2).adapt(0.0).adapt(4.0)
    assert (steps.primal, steps.dual) == (0.1, 0.2)


def test_steps_are_clamped_to_their_ranges() -> None:
    rule = StepRule(primal_range=(0.09, 0.105), dual_range=(0.15, 0.21))
    start = StepSizes(primal=0.1, dual=0.2, rule=rule).adapt(1.0)
    grown, shrunk = start.adapt(0.01), start.adapt(100.0)
    assert (grown.primal, grown.dual) == (0.105, 0.21)
    assert (shrunk.primal, shrunk.dual) == (0.09, 0.15)


def test_a_gradient_spike_clips_the_dual_step() -> None:
    calm = StepSizes(primal=0.1, dual=0.5).with_gradient(1.0)
    spike = calm.with_gradient(100.0)
    assert (calm.dual, calm.clipped) == (0.5, False)
    assert spike.dual == pytest.approx(0.9 / (0.1 * 100.0))
    assert spike.clipped


def test_the_steepest_gradient_is_remembered() -> None:
    steps = StepSizes(primal=0.1, dual=0.5).with_gradient(100.0).with_gradient(1.0)
    assert steps.steepest == 100.0
    assert steps.dual_bound == pytest.approx(0.09)


def test_the_dual_step_has_no_bound_before_a_gradient() -> None:
    assert StepSizes(primal=0.1, dual=0.5).dual_bound == math.inf


@given(st.lists(st.tuples(positive, st.floats(0.0, 1e6)), min_size=1, max_size=8))
def test_the_coupling_stays_below_its_bound(
    history: list[tuple[float, float]],
) -> None:
    steps = StepSizes(primal=0.05, dual=0.1)
    for squared_gradient, squared_change in history:
        steps = steps.with_gradient(squared_gradient)
        assert steps.dual * steps.primal * steps.steepest <= 0.9 * (1 + 1e-9)
        steps = steps.adapt(squared_change)
        assert steps.dual * steps.primal * steps.steepest <= 0.9 * (1 + 1e-9)
        assert 1e-4 <= steps.primal <= 1.0


@pytest.mark.parametrize(
    "wrong",
    [{"beta": 2.0}, {"grow": 0.9}, {"shrink": 1.1}, {"safety": 1.0}, {"safety": 0.0}],
)
def test_a_rule_that_cannot_adapt_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="breaks at least one of three rules"):
        StepRule(**wrong)  # type: ignore[arg-type]
