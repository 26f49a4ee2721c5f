"""Tests of FedORA's constraint on a language model: scores, the dual, and its fixed points."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.llm.likelihood import SequenceNll
from unlearning.llm.losses import simnpo_loss
from unlearning.llm.primal_dual import (
    PreferenceScore,
    ScoreSum,
    dual_ascent,
    initial_dual,
    lagrangian,
    preference_scores,
)
from unlearning.primal_dual import Dual

SHAPE = PreferenceScore(ceiling=3.0, sharpness=4.0)


def answers(*means: float) -> SequenceNll:
    """Return answers of four tokens with these mean nats per token."""
    leaf = 4.0 * torch.tensor(means, dtype=torch.float64)
    return SequenceNll(leaf.requires_grad_(), torch.full((len(means),), 4))


def test_preference_score_by_hand() -> None:
    low, bend, high = preference_scores(answers(0.5, 3.0, 50.0), SHAPE).tolist()
    assert low == pytest.approx(0.5, abs=2e-5)  # 3 − ¼ log(1 + e¹⁰) = 0.49999
    assert low == pytest.approx(3.0 - 0.25 * math.log1p(math.exp(10.0)), rel=1e-12)
    assert bend == pytest.approx(3.0 - math.log(2) / 4.0, rel=1e-12)
    assert high == 3.0


def test_the_preference_slope_is_one_below_the_ceiling_and_zero_above() -> None:
    forget = answers(0.5, 3.0, 50.0)
    scores = preference_scores(forget, SHAPE)
    [gradient] = torch.autograd.grad(scores.sum(), forget.total)
    sigmoid = 1 / (1 + math.exp(-10.0))
    assert (4 * gradient).tolist() == pytest.approx([sigmoid, 0.5, 0.0], rel=1e-9, abs=1e-12)


def test_the_preference_score_is_simnpo_with_delta_at_the_ceiling() -> None:
    forget = answers(0.5, 2.0, 3.5)
    mean = preference_scores(forget, SHAPE).mean().item()
    assert mean == pytest.approx(3.0 - simnpo_loss(forget, 4.0, delta=3.0).item() / 2, rel=1e-12)


@given(st.floats(0, 1e3), st.floats(0.01, 20), st.floats(0.1, 50))
def test_preference_never_exceeds_the_ceiling_nor_the_likelihood(
    mean: float, ceiling: float, sharpness: float
) -> None:
    shape = PreferenceScore(ceiling=ceiling, sharpness=sharpness)
    score = preference_scores(answers(mean), shape).item()
    assert score <= min(ceiling, mean) + 1e-9 * (1 + mean)
    assert score >= min(ceiling, mean) - math.log(2) / sharpness - 1e-9 * (1 + mean)


def test_one_destroyed_answer_does_not_satisfy_the_constraint() -> None:
    scores = preference_scores(answers(0.0, 0.0, 0.0, 1e6), SHAPE)
    assert scores.mean().item() == pytest.approx(0.75, abs=1e-4)  # and not 250,000


@pytest.mark.parametrize("ceiling", [0.0, -1.0, math.inf, math.nan])
def test_an_invalid_ceiling_is_refused(ceiling: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        PreferenceScore(ceiling=ceiling)


def test_lagrangian_and_its_slope_by_hand() -> None:
    retain = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    scores = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    result = lagrangian(retain, scores, Dual(threshold=3.0, multiplier=4.0))
    assert result.item() == 2.0 + 4.0 * (3.0 - 1.5)
    result.backward()
    assert retain.grad is not None
    assert retain.grad.item() == 1.0
    assert scores.grad is not None
    assert scores.grad.tolist() == [-2.0, -2.0]  # −Ω / n_u


def test_the_dual_ascends_on_the_mean_over_all_answers() -> None:
    dual = initial_dual(threshold=2.0, highest=3.0, multiplier=1.0)
    clients = [ScoreSum(3.0, 3), ScoreSum(), ScoreSum(1.0, 1)]
    assert sum(clients, ScoreSum()) == ScoreSum(4.0, 4)
    assert dual_ascent(dual, clients, 0.5).multiplier == 1.0 + 0.5 * (2.0 - 1.0)
    assert dual.multiplier == 1.0


def test_a_round_without_forgotten_answers_leaves_the_dual() -> None:
    dual = initial_dual(threshold=2.0, highest=3.0, multiplier=1.0)
    assert dual_ascent(dual, [ScoreSum()], 0.5) is dual


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="mean score of 2 answers is nan"):
        dual_ascent(initial_dual(1.0, 2.0, multiplier=1.0), [ScoreSum(math.nan, 2)], 0.5)


@pytest.mark.parametrize("threshold", [3.0, 4.0, math.inf, -math.inf, math.nan])
def test_a_threshold_that_cannot_be_met_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="must be finite and below"):
        initial_dual(threshold=threshold, highest=SHAPE.ceiling)


def test_an_initial_dual_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1.0\] \(got 2.0\)"):
        initial_dual(threshold=1.0, highest=2.0, multiplier=2.0, maximum=1.0)


def score_sum(scores: Tensor) -> ScoreSum:
    return ScoreSum(float(scores.detach().double().sum()), len(scores))


def nll_of(logits: Tensor, token: int) -> SequenceNll:
    """Return the likelihood of an answer of one token; ``logits`` are ``[vocabulary]``."""
    return SequenceNll(-logits.log_softmax(0)[token : token + 1], torch.tensor([1]))


def descend(threshold: float, steps: int) -> tuple[float, Dual]:
    """Unlearn one of two answers to a prompt, while half of the retained answers are that one."""
    logits = torch.nn.Parameter(torch.tensor([3.0, 0.0], dtype=torch.float64))
    dual, optimiser = initial_dual(threshold, SHAPE.ceiling), torch.optim.SGD([logits], lr=1.0)
    for _ in range(steps):
        forget, other = nll_of(logits, 0), nll_of(logits, 1)
        scores = preference_scores(forget, SHAPE)
        optimiser.zero_grad()
        retain = (forget.token_mean + other.token_mean) / 2
        lagrangian(retain, scores, dual).backward()
        optimiser.step()
        dual = dual_ascent(dual, [score_sum(scores)], 0.1)
    return nll_of(logits, 0).mean.item(), dual


def test_unlearning_ends_at_the_threshold_and_its_dual() -> None:
    forgotten, dual = descend(threshold=1.5, steps=200)
    assert forgotten == pytest.approx(1.5, abs=2e-3)
    # ∇L_r = Ω ∇S_u with p = e^−1.5: (½ − p) = Ω (1 − p), so Ω = 0.2769 / 0.7769.
    assert dual.multiplier == pytest.approx(0.35640, rel=1e-2)


def test_a_met_threshold_has_dual_zero() -> None:
    forgotten, dual = descend(threshold=0.01, steps=60)
    assert dual.multiplier == 0.0
    assert forgotten == pytest.approx(math.log(2), abs=1e-3)  # the optimum of L_r alone


def test_an_upper_bound_on_forgetting_holds_an_answer_back() -> None:
    """The retained answers push this answer away; its constraint holds it at two nats."""
    logits = torch.nn.Parameter(torch.tensor([-3.0, 0.0], dtype=torch.float64))
    upper, optimiser = initial_dual(threshold=-2.0, highest=0.0), torch.optim.SGD([logits], lr=1.0)
    for _ in range(200):
        scores = -nll_of(logits, 0).mean
        optimiser.zero_grad()
        lagrangian(nll_of(logits, 1).token_mean, scores, upper).backward()
        optimiser.step()
        upper = dual_ascent(upper, [score_sum(scores)], 0.1)
    assert nll_of(logits, 0).mean.item() == pytest.approx(2.0, abs=2e-3)
    # ∇L_r = Ω ∇S̄ with p = e^−2: p = Ω (1 − p), so Ω = 0.13534 / 0.86466.
    assert upper.multiplier == pytest.approx(0.15652, rel=1e-2)
