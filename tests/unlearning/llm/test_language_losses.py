"""Tests of the unlearning losses of language models: values by hand, gradients and bounds."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.llm.likelihood import SequenceNll
from unlearning.llm.losses import (
    gradient_ascent_loss,
    npo_loss,
    rmu_forget_loss,
    rmu_retain_loss,
    simnpo_loss,
    steering_vector,
    weighted_loss,
)

BETAS = [1e-3, 0.1, 1.0, 4.5, 30.0]
nats = st.floats(0.0, 1e4)


def nll(*totals: float, tokens: int = 4) -> SequenceNll:
    leaf = torch.tensor(totals, dtype=torch.float64, requires_grad=True)
    return SequenceNll(leaf, torch.full((len(totals),), tokens))


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def slope(loss: Tensor, forget: SequenceNll) -> list[float]:
    [gradient] = torch.autograd.grad(loss, forget.total)
    result: list[float] = gradient.tolist()
    return result


def test_gradient_ascent_is_minus_the_mean_over_the_tokens_of_the_batch() -> None:
    forget = SequenceNll(doubles(6.0, 1.0).requires_grad_(), torch.tensor([3, 1]))
    loss = gradient_ascent_loss(forget)
    assert loss.item() == -7 / 4
    assert slope(loss, forget) == [-0.25, -0.25]


def test_gradient_difference_by_hand() -> None:
    forget, retain = gradient_ascent_loss(nll(8.0)), nll(2.0, 4.0).token_mean
    assert weighted_loss(forget, retain).item() == -8 / 4 + 6 / 8
    assert weighted_loss(forget, retain, gamma=0.5, alpha=4.0).item() == 0.5 * -2 + 4 * 0.75


def test_npo_by_hand() -> None:
    forget = nll(12.0)
    loss = npo_loss(forget, doubles(10.0), beta=0.1)
    assert loss.item() == pytest.approx(11.962777, rel=1e-6)
    assert slope(loss, forget) == pytest.approx([-0.900332], rel=1e-6)


def test_npo_at_its_reference_by_hand() -> None:
    assert npo_loss(nll(10.0), doubles(10.0), beta=0.1).item() == pytest.approx(13.862944, rel=1e-6)
    assert 2 / 0.1 * math.log(2) == pytest.approx(13.862944, rel=1e-6)


@pytest.mark.parametrize("beta", BETAS)
def test_npo_at_its_reference_has_the_gradient_of_gradient_ascent(beta: float) -> None:
    forget = nll(10.0)
    assert slope(npo_loss(forget, doubles(10.0), beta), forget) == pytest.approx([-1.0], rel=1e-12)


def test_npo_with_a_tiny_beta_is_gradient_ascent_on_sums() -> None:
    forget = nll(12.0, 30.0, 3.0)
    loss = npo_loss(forget, doubles(10.0, 10.0, 10.0), beta=1e-9)
    [ascent_slope] = torch.autograd.grad(-forget.total.mean(), forget.total)
    assert slope(loss, forget) == pytest.approx(ascent_slope.tolist(), rel=1e-6)


def test_npo_gradient_agrees_with_finite_differences() -> None:
    reference, tokens = doubles(10.0, 2.0), torch.tensor([4, 4])
    leaf = doubles(12.0, 1.0).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: npo_loss(SequenceNll(x, tokens), reference, 0.5), (leaf,)
    )
    assert torch.autograd.gradcheck(
        lambda x: simnpo_loss(SequenceNll(x, tokens), 2.5, 0.3), (leaf,)
    )


@given(nats, nats, st.floats(1e-3, 30.0))
def test_npo_lies_between_zero_and_gradient_ascents_line(
    total: float, reference: float, beta: float
) -> None:
    """0 ≤ loss, and loss ≥ (2/β) log 2 − gain, its tangent at the reference (it is convex)."""
    loss = npo_loss(nll(total), doubles(reference), beta).item()
    tangent = 2 / beta * math.log(2) - (total - reference)
    assert loss >= max(0.0, tangent) - 1e-9 * (1 + abs(tangent))


def test_the_reference_of_npo_gets_no_gradient() -> None:
    reference = doubles(10.0).requires_grad_()
    npo_loss(nll(12.0), reference).backward()
    assert reference.grad is None


def test_npo_refuses_a_reference_of_other_rows() -> None:
    with pytest.raises(ValueError, match=r"shape \[1\], but the batch has 2 rows"):
        npo_loss(nll(1.0, 2.0), doubles(1.0))


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan])
def test_a_beta_that_is_not_positive_is_refused(beta: float) -> None:
    with pytest.raises(ValueError, match="beta must be above 0"):
        npo_loss(nll(1.0), doubles(1.0), beta)
    with pytest.raises(ValueError, match="beta must be above 0"):
        simnpo_loss(nll(1.0), beta)


def test_simnpo_by_hand() -> None:
    result = simnpo_loss(nll(12.0, tokens=4), beta=2.5).item()
    assert result == pytest.approx(2 / 2.5 * math.log1p(math.exp(-7.5)), rel=1e-12)
    assert result == pytest.approx(4.42345e-4, rel=1e-5)  # as in the paper, to six digits
    assert result == pytest.approx(4.423448e-4, rel=1e-6)


def test_delta_of_simnpo_stands_inside_beta() -> None:
    inside = -(2 / 2.5) * math.log(1 / (1 + math.exp(-2.5 * (3.0 - 1.0))))
    assert simnpo_loss(nll(12.0, tokens=4), 2.5, delta=1.0).item() == pytest.approx(
        inside, rel=1e-12
    )
    # Adding 1 to δ and to NLL/|y| changes nothing.
    moved = simnpo_loss(nll(16.0, tokens=4), 2.5, delta=2.0).item()
    assert moved == pytest.approx(inside, rel=1e-12)


@given(nats, st.integers(1, 500), st.floats(1e-3, 30.0))
def test_simnpo_is_bounded_below_by_zero_and_falls(total: float, tokens: int, beta: float) -> None:
    here = simnpo_loss(nll(total, tokens=tokens), beta).item()
    further = simnpo_loss(nll(total + 1.0, tokens=tokens), beta).item()
    assert 0.0 <= further <= here <= 2 / beta * math.log(2) + 1e-9


def test_simnpo_does_not_depend_on_the_length_of_an_answer() -> None:
    assert simnpo_loss(nll(6.0, tokens=2)).item() == simnpo_loss(nll(60.0, tokens=20)).item()


def test_the_steering_vector_is_positive_and_depends_on_its_seed() -> None:
    result = steering_vector(64, 20.0, seed=3)
    assert result.norm().item() == pytest.approx(20.0, rel=1e-12)
    assert bool((result >= 0).all())
    state = torch.random.get_rng_state()
    assert torch.equal(result, steering_vector(64, 20.0, seed=3))
    assert torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(result, steering_vector(64, 20.0, seed=4))


def test_rmu_by_hand() -> None:
    # Row 0: tokens at squared distances 4 and 2 (by width 2: 2 and 1); row 1: one at 8 (4).
    activations = torch.tensor(
        [[[3.0, 1.0], [0.0, 2.0]], [[3.0, 3.0], [9.0, 9.0]]], requires_grad=True
    )
    mask = torch.tensor([[True, True], [True, False]])
    loss = rmu_forget_loss(activations, torch.tensor([1.0, 1.0], dtype=torch.float64), mask)
    assert loss.item() == (1.5 + 4.0) / 2
    loss.backward()
    assert activations.grad is not None
    # ∂/∂M of row 0, token 0: 2 (3 − 1) / (width 2 · tokens 2 · batch 2).
    assert activations.grad[0, 0].tolist() == [0.5, 0.0]
    assert activations.grad[1, 1].tolist() == [0.0, 0.0]


def test_the_retain_term_of_rmu_by_hand() -> None:
    activations = torch.tensor([[[1.0, 2.0]]], requires_grad=True)
    frozen = torch.tensor([[[1.0, 4.0]]], requires_grad=True)
    loss = rmu_retain_loss(activations, frozen, torch.tensor([[1]]))
    assert loss.item() == 2.0
    loss.backward()
    assert frozen.grad is None
    assert rmu_retain_loss(activations, activations, torch.tensor([[1]])).item() == 0.0


def test_activations_outside_the_mask_of_rmu_may_be_infinite() -> None:
    activations = torch.tensor([[[1.0], [math.inf]]], requires_grad=True)
    loss = rmu_forget_loss(activations, torch.zeros(1), torch.tensor([[1, 0]]))
    assert loss.item() == 1.0


def test_rmu_refuses_a_row_without_tokens() -> None:
    with pytest.raises(ValueError, match=r"rows \[1\] of the batch have no token"):
        rmu_forget_loss(torch.ones(2, 1, 1), torch.ones(1), torch.tensor([[1], [0]]))
