"""Tests of the dual ascent and of the primal step."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.primal_dual import (
    Dual,
    LiteralDual,
    UnlearningTerms,
    extrapolated_score,
    perturb,
    primal_step,
    retain_steps,
    zero_literal_dual,
)

finite = st.floats(-1e6, 1e6)


def vector(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)


def test_the_dual_rises_by_the_step_times_the_shortfall() -> None:
    assert Dual(threshold=1.0, multiplier=0.5).ascend(-3.0, 0.25).multiplier == 1.5


def test_extrapolation_by_hand() -> None:
    assert extrapolated_score(1.5, None) == 1.5
    assert extrapolated_score(1.5, 1.0) == 2.0
    # For S_u linear in θ the extrapolation is exact: it is S_u at 2 Θᵏ − Θᵏ⁻¹.
    before, now, slope = vector(1.0, 2.0), vector(0.5, 2.5), vector(3.0, -1.0)
    expected = torch.dot(2 * now - before, slope).item()
    assert (
        extrapolated_score(torch.dot(now, slope).item(), torch.dot(before, slope).item())
        == expected
    )


def test_the_dual_falls_to_zero_once_the_threshold_is_met() -> None:
    dual = Dual(threshold=1.0, multiplier=1.0)
    for _ in range(5):
        dual = dual.ascend(3.0, 0.25)  # surplus 2, so −0.5 per iteration
    assert dual.multiplier == 0.0


@given(finite, finite, st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100))
def test_the_dual_stays_between_zero_and_its_maximum(
    threshold: float, score: float, step: float, multiplier: float, maximum: float
) -> None:
    raised = Dual(threshold=threshold, multiplier=min(multiplier, maximum), maximum=maximum).ascend(
        score, step
    )
    assert 0.0 <= raised.multiplier <= maximum


def test_the_literal_dual_grows_by_step_times_threshold_at_zero_gradient() -> None:
    """The dual as printed in Eq. 25 grows although nothing is left to forget."""
    block = [torch.zeros(2, dtype=torch.float64)]
    dual = zero_literal_dual(block, threshold=0.5, maximum=100.0)
    for k in range(1, 6):
        dual = dual.ascend([torch.zeros(2)], 0.2)
        assert dual.multipliers[0].tolist() == pytest.approx([0.1 * k, 0.1 * k])


def test_the_literal_dual_is_projected() -> None:
    dual = LiteralDual(threshold=0.0, maximum=10.0, multipliers=(vector(0.5, 0.5),))
    assert dual.ascend([vector(-1.0, 4.0)], 0.25).multipliers[0].tolist() == [0.75, 0.0]


def test_the_literal_dual_is_limited_by_the_norm_of_the_block() -> None:
    dual = zero_literal_dual([vector(0.0), vector(0.0)], threshold=0.0, maximum=1.0)
    multipliers = dual.ascend([vector(-3.0), vector(-4.0)], 1.0).multipliers
    assert [multiplier.item() for multiplier in multipliers] == pytest.approx([0.6, 0.8])


@given(st.lists(finite, min_size=1, max_size=4), finite, st.floats(0, 10), st.floats(0.1, 10))
def test_the_literal_dual_is_never_negative_nor_above_its_maximum(
    gradient: list[float], threshold: float, step: float, maximum: float
) -> None:
    start = zero_literal_dual([vector(*gradient)], threshold, maximum)
    [multipliers] = start.ascend([vector(*gradient)], step).multipliers
    assert bool((multipliers >= 0).all())
    assert multipliers.norm().item() <= maximum * (1 + 1e-9)


def test_primal_step_by_hand() -> None:
    theta = vector(1.0, 2.0)
    terms = UnlearningTerms([vector(1.0, -1.0)], 2.0, [vector(0.0, 0.0)])
    primal_step([theta], [vector(4.0, 4.0)], terms, primal=0.1, proximal=0.5)
    # θ − 0.1 ((4, 4) − 2 (1, −1) + 0.5 (1, 2)) = (1, 2) − 0.1 (2.5, 7)
    assert theta.tolist() == pytest.approx([0.75, 1.3])


def test_primal_step_with_one_multiplier_per_parameter() -> None:
    theta = vector(1.0, 2.0)
    terms = UnlearningTerms([vector(1.0, 1.0)], [vector(3.0, 0.0)], [theta.clone()])
    primal_step([theta], [vector(0.0, 1.0)], terms, primal=0.5, proximal=1.0)
    assert theta.tolist() == pytest.approx([2.5, 1.5])


def test_without_share_the_retain_term_is_absent() -> None:
    theta = vector(1.0)
    primal_step(
        [theta], None, UnlearningTerms([vector(2.0)], 1.0, [vector(1.0)]), primal=0.5, proximal=9.0
    )
    assert theta.tolist() == [2.0]


def test_primal_step_moves_parameters_that_require_gradients() -> None:
    theta = torch.nn.Parameter(vector(1.0))
    primal_step(
        [theta],
        [vector(1.0)],
        UnlearningTerms([vector(0.0)], 0.0, [vector(1.0)]),
        primal=1,
        proximal=0,
    )
    assert theta.tolist() == [0.0]
    assert theta.requires_grad


def test_noise_has_its_deviation_and_is_repeated_with_its_seed() -> None:
    block = [torch.ones(300, 200), torch.zeros(7)]
    start = [each.clone() for each in block]
    perturb(block, 0.25, seed=5)
    added = block[0] - start[0]
    assert added.mean().item() == pytest.approx(0.0, abs=0.005)  # 5 standard errors of 0.001
    assert added.std().item() == pytest.approx(0.25, rel=0.02)
    again, other = [each.clone() for each in start], [each.clone() for each in start]
    perturb(again, 0.25, seed=5)
    perturb(other, 0.25, seed=6)
    assert all(torch.equal(a, b) for a, b in zip(block, again, strict=True))
    assert not torch.equal(block[1], other[1])


def test_primal_step_refuses_gradients_of_another_model() -> None:
    with pytest.raises(ValueError, match="shorter"):
        primal_step(
            [vector(1.0)], None, UnlearningTerms([], 1.0, [vector(1.0)]), primal=1, proximal=0
        )


@pytest.mark.parametrize(
    ("share", "retained", "batch", "steps"),
    [(0.25, 1000, 64, 4), (1.0, 100, 50, 2), (0.0, 1000, 64, 1), (0.001, 10, 64, 1)],
)
def test_retain_steps(share: float, retained: int, batch: int, steps: int) -> None:
    assert retain_steps(share, retained, batch) == steps


def test_drift_of_a_quadratic_with_biased_gradient_ends_at_c_over_mu() -> None:
    """With μ = .1, c = 1, τ = .1 the drift is c/μ; the radius printed in the paper is larger."""
    mu, c, tau = 0.1, 1.0, 0.1
    theta = vector(0.0)  # starts at the optimum; Ω g_u = c is the bias of the gradient
    for _ in range(3000):
        primal_step(
            [theta],
            [mu * theta],
            UnlearningTerms([vector(c)], 1.0, [theta]),
            primal=tau,
            proximal=0.0,
        )
    printed = math.sqrt(tau) / (1.0 - math.sqrt(1.0 - tau * mu)) * c
    assert theta.item() == pytest.approx(c / mu, rel=1e-6)
    assert printed == pytest.approx(63.09, abs=0.01)


def test_drift_never_exceeds_the_contraction_bound() -> None:
    mu, c, tau, error = 0.1, 1.0, 0.1, 5.0
    theta = vector(error)
    for _ in range(200):
        primal_step(
            [theta],
            [mu * theta],
            UnlearningTerms([vector(c)], 1.0, [theta]),
            primal=tau,
            proximal=0.0,
        )
        # Theorem 1 in its tighter form: ‖eᵏ⁺¹‖ ≤ (1 − τμ) ‖eᵏ‖ + τ c.
        error = (1.0 - tau * mu) * error + tau * c
        assert abs(theta.item()) <= error + 1e-12
