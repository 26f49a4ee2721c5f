"""Tests of the dual and the primal step: drift, growth, projection, and hand numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.primal_dual import (
    Dual,
    LiteralDual,
    Pull,
    extrapolated,
    free_of_charge,
    primal_step,
    retain_steps,
)

finite = st.floats(-1e6, 1e6)


def vector(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)


def test_price_rises_by_the_step_times_the_shortfall() -> None:
    assert Dual(threshold=1.0, price=0.5).ascend(-3.0, 0.25).price == 1.5


def test_extrapolation_goes_as_far_again() -> None:
    assert extrapolated(1.5, None) == 1.5
    assert extrapolated(1.5, 1.0) == 2.0
    # S_u linear in θ: at 2 Θᵏ − Θᵏ⁻¹ it is what the two scores say.
    before, now, score = vector(1.0, 2.0), vector(0.5, 2.5), vector(3.0, -1.0)
    there = torch.dot(2 * now - before, score).item()
    assert extrapolated(torch.dot(now, score).item(), torch.dot(before, score).item()) == there


def test_price_relaxes_to_zero_once_the_threshold_is_met() -> None:
    dual = Dual(threshold=1.0, price=1.0)
    for _ in range(5):
        dual = dual.ascend(3.0, 0.25)  # surplus 2, so -0.5 an iteration
    assert dual.price == 0.0


@given(finite, finite, st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100))
def test_price_stays_between_zero_and_cap(
    threshold: float, score: float, step: float, price: float, cap: float
) -> None:
    raised = Dual(threshold=threshold, price=min(price, cap), cap=cap).ascend(score, step)
    assert 0.0 <= raised.price <= cap


def test_literal_price_grows_by_step_times_threshold_where_gradients_are_zero() -> None:
    """The dual as printed in Eq. 25 never relaxes, though nothing is left to forget."""
    block = [torch.zeros(2, dtype=torch.float64)]
    dual = free_of_charge(block, threshold=0.5, cap=100.0)
    for k in range(1, 6):
        dual = dual.ascend([torch.zeros(2)], 0.2)
        assert dual.prices[0].tolist() == pytest.approx([0.1 * k, 0.1 * k])


def test_literal_price_by_hand_with_projection() -> None:
    dual = LiteralDual(threshold=0.0, cap=10.0, prices=(vector(0.5, 0.5),))
    assert dual.ascend([vector(-1.0, 4.0)], 0.25).prices[0].tolist() == [0.75, 0.0]


def test_literal_price_is_capped_by_the_norm_of_the_block() -> None:
    dual = free_of_charge([vector(0.0), vector(0.0)], threshold=0.0, cap=1.0)
    prices = dual.ascend([vector(-3.0), vector(-4.0)], 1.0).prices
    assert [price.item() for price in prices] == pytest.approx([0.6, 0.8])


@given(st.lists(finite, min_size=1, max_size=4), finite, st.floats(0, 10), st.floats(0.1, 10))
def test_literal_prices_are_never_negative_nor_over_the_cap(
    gradient: list[float], threshold: float, step: float, cap: float
) -> None:
    start = free_of_charge([vector(*gradient)], threshold, cap)
    [prices] = start.ascend([vector(*gradient)], step).prices
    assert bool((prices >= 0).all())
    assert prices.norm().item() <= cap * (1 + 1e-9)


def test_primal_step_by_hand() -> None:
    theta = vector(1.0, 2.0)
    pull = Pull([vector(1.0, -1.0)], 2.0, [vector(0.0, 0.0)])
    primal_step([theta], [vector(4.0, 4.0)], pull, primal=0.1, proximal=0.5)
    # θ − 0.1 ((4, 4) − 2 (1, −1) + 0.5 (1, 2)) = (1, 2) − 0.1 (2.5, 7)
    assert theta.tolist() == pytest.approx([0.75, 1.3])


def test_primal_step_with_one_price_per_parameter() -> None:
    theta = vector(1.0, 2.0)
    pull = Pull([vector(1.0, 1.0)], [vector(3.0, 0.0)], [theta.clone()])
    primal_step([theta], [vector(0.0, 1.0)], pull, primal=0.5, proximal=1.0)
    assert theta.tolist() == pytest.approx([2.5, 1.5])


def test_without_share_the_retain_term_is_absent() -> None:
    theta = vector(1.0)
    primal_step([theta], None, Pull([vector(2.0)], 1.0, [vector(1.0)]), primal=0.5, proximal=9.0)
    assert theta.tolist() == [2.0]


def test_primal_step_moves_parameters_that_require_gradients() -> None:
    theta = torch.nn.Parameter(vector(1.0))
    primal_step(
        [theta], [vector(1.0)], Pull([vector(0.0)], 0.0, [vector(1.0)]), primal=1, proximal=0
    )
    assert theta.tolist() == [0.0]
    assert theta.requires_grad


def test_primal_step_refuses_a_pull_of_another_model() -> None:
    with pytest.raises(ValueError, match="shorter"):
        primal_step([vector(1.0)], None, Pull([], 1.0, [vector(1.0)]), primal=1, proximal=0)


@pytest.mark.parametrize(
    ("share", "retained", "batch", "steps"),
    [(0.25, 1000, 64, 4), (1.0, 100, 50, 2), (0.0, 1000, 64, 1), (0.001, 10, 64, 1)],
)
def test_retain_steps(share: float, retained: int, batch: int, steps: int) -> None:
    assert retain_steps(share, retained, batch) == steps


def test_drift_of_a_quadratic_with_biased_gradient_ends_at_c_over_mu() -> None:
    """A quadratic, μ = .1, c = 1, τ = .1; the radius printed in the paper is met, but looser."""
    mu, c, tau = 0.1, 1.0, 0.1
    theta = vector(0.0)  # Ω g_u = c is the bias of the gradient
    for _ in range(3000):
        primal_step(
            [theta], [mu * theta], Pull([vector(c)], 1.0, [theta]), primal=tau, proximal=0.0
        )
    printed = math.sqrt(tau) / (1.0 - math.sqrt(1.0 - tau * mu)) * c
    assert theta.item() == pytest.approx(c / mu, rel=1e-6)
    assert printed == pytest.approx(63.09, abs=0.01)


def test_drift_never_exceeds_the_contraction_bound() -> None:
    mu, c, tau, error = 0.1, 1.0, 0.1, 5.0
    theta = vector(error)
    for _ in range(200):
        primal_step(
            [theta], [mu * theta], Pull([vector(c)], 1.0, [theta]), primal=tau, proximal=0.0
        )
        # Theorem 1 in its tighter form: ‖eᵏ⁺¹‖ ≤ (1 − τμ) ‖eᵏ‖ + τ c.
        error = (1.0 - tau * mu) * error + tau * c
        assert abs(theta.item()) <= error + 1e-12
