"""Tests of FedORA's constraint on a language model: scores that end, a price that comes back."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.llm.forgetting_scores import (
    Preference,
    entropy_scores,
    highest_entropy_score,
    preference_scores,
)
from unlearning.llm.likelihood import Nll
from unlearning.llm.primal_dual import ScoreSum, ascend, init, lagrangian, summed
from unlearning.llm.simnpo import simnpo
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import Dual

SHAPE = Preference(ceiling=3.0, sharpness=4.0)


def answers(*means: float) -> Nll:
    """Answers of four tokens at these nats a token."""
    leaf = 4.0 * torch.tensor(means, dtype=torch.float64)
    return Nll(leaf.requires_grad_(), torch.full((len(means),), 4))


def test_preference_score_by_hand() -> None:
    low, bend, high = preference_scores(answers(0.5, 3.0, 50.0), SHAPE).tolist()
    assert low == pytest.approx(0.5, abs=2e-5)  # 3 − ¼ log(1 + e¹⁰) = 0.49999
    assert low == pytest.approx(3.0 - 0.25 * math.log1p(math.exp(10.0)), rel=1e-12)
    assert bend == pytest.approx(3.0 - math.log(2) / 4.0, rel=1e-12)
    assert high == 3.0


def test_preference_slope_is_one_below_the_ceiling_and_none_above() -> None:
    forget = answers(0.5, 3.0, 50.0)
    scores = preference_scores(forget, SHAPE)
    [gradient] = torch.autograd.grad(scores.sum(), forget.total)
    sigmoid = 1 / (1 + math.exp(-10.0))
    assert (4 * gradient).tolist() == pytest.approx([sigmoid, 0.5, 0.0], rel=1e-9, abs=1e-12)


def test_preference_is_simnpo_with_its_bend_at_the_ceiling() -> None:
    forget = answers(0.5, 2.0, 3.5)
    mean = preference_scores(forget, SHAPE).mean().item()
    assert mean == pytest.approx(3.0 - simnpo(forget, 4.0, delta=3.0).item() / 2, rel=1e-12)


@given(st.floats(0, 1e3), st.floats(0.01, 20), st.floats(0.1, 50))
def test_preference_never_exceeds_the_ceiling_nor_the_likelihood(
    mean: float, ceiling: float, sharpness: float
) -> None:
    shape = Preference(ceiling=ceiling, sharpness=sharpness)
    score = preference_scores(answers(mean), shape).item()
    assert score <= min(ceiling, mean) + 1e-9 * (1 + mean)
    assert score >= min(ceiling, mean) - math.log(2) / sharpness - 1e-9 * (1 + mean)


def test_one_wrecked_answer_does_not_meet_the_constraint_for_the_others() -> None:
    scores = preference_scores(answers(0.0, 0.0, 0.0, 1e6), SHAPE)
    assert scores.mean().item() == pytest.approx(0.75, abs=1e-4)  # and not 250,000


@pytest.mark.parametrize("ceiling", [0.0, -1.0, math.inf, math.nan])
def test_a_ceiling_that_is_none_is_refused(ceiling: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        Preference(ceiling=ceiling)


def test_entropy_score_is_fedoras_at_the_label_tokens() -> None:
    rows = torch.tensor(
        [[[2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [9.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]] * 3],
        dtype=torch.float64,
    )
    labels = torch.tensor([[-100, 2, 0], [-100, -100, 1]])
    found = entropy_scores(rows, labels, weight=2.0)
    # 1.132358 by hand for (2, 1, 0) at ω = 2; uniform tokens have 2 log 3.
    wanted = [(1.132358 + 2 * math.log(3)) / 2, 2 * math.log(3)]
    assert found.tolist() == pytest.approx(wanted, abs=1e-6)
    assert found[0].item() == pytest.approx(forgetting_scores(rows[0, :2], 2.0).mean().item())
    assert highest_entropy_score(3, 2.0) == pytest.approx(2 * math.log(3))


def test_entropy_score_looks_at_no_label() -> None:
    rows = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([[-100, 1, 2, 3], [-100, -100, 4, 0]])
    other = labels.where(labels < 0, (labels + 1) % 5)
    assert torch.equal(entropy_scores(rows, labels), entropy_scores(rows, other))


def test_entropy_gradient_agrees_with_finite_differences() -> None:
    rows = torch.randn(
        2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).requires_grad_()
    labels = torch.tensor([[-100, 1, 2], [-100, -100, 3]])
    assert torch.autograd.gradcheck(lambda x: entropy_scores(x, labels, 2.0), (rows,))


def test_lagrangian_and_its_slope_by_hand() -> None:
    retain = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    scores = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    found = lagrangian(retain, scores, Dual(threshold=3.0, price=4.0))
    assert found.item() == 2.0 + 4.0 * (3.0 - 1.5)
    found.backward()
    assert retain.grad is not None
    assert retain.grad.item() == 1.0
    assert scores.grad is not None
    assert scores.grad.tolist() == [-2.0, -2.0]  # −Ω / n_u


def test_price_ascends_on_the_mean_over_answers_whoever_holds_them() -> None:
    dual = init(threshold=2.0, highest=3.0, price=1.0)
    clients = [summed(torch.tensor([0.0, 1.0, 2.0])), ScoreSum(), summed(torch.tensor([1.0]))]
    assert sum(clients, ScoreSum()) == ScoreSum(4.0, 4)
    assert ascend(dual, clients, 0.5).price == 1.0 + 0.5 * (2.0 - 1.0)
    assert dual.price == 1.0


def test_a_round_without_forgotten_answers_leaves_the_price() -> None:
    dual = init(threshold=2.0, highest=3.0, price=1.0)
    assert ascend(dual, [ScoreSum()], 0.5) is dual


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="mean score of 2 answers is nan"):
        ascend(init(1.0, 2.0, price=1.0), [summed(torch.tensor([1.0, math.nan]))], 0.5)


@pytest.mark.parametrize("threshold", [3.0, 4.0, math.inf, -math.inf, math.nan])
def test_a_threshold_that_cannot_be_met_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="can never be met"):
        init(threshold=threshold, highest=SHAPE.ceiling)


def test_a_price_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"price 2.0 is not in \[0, 1.0\]"):
        init(threshold=1.0, highest=2.0, price=2.0, cap=1.0)


def nll_of(logits: Tensor, token: int) -> Nll:
    """The likelihood of an answer of one token, by ``[vocabulary]`` logits."""
    return Nll(-logits.log_softmax(0)[token : token + 1], torch.tensor([1]))


def descend(threshold: float, steps: int) -> tuple[float, Dual]:
    """Two answers to one prompt: half of the retained ones are the one to be forgotten."""
    logits = torch.nn.Parameter(torch.tensor([3.0, 0.0], dtype=torch.float64))
    dual, optimiser = init(threshold, SHAPE.ceiling), torch.optim.SGD([logits], lr=1.0)
    for _ in range(steps):
        forget, other = nll_of(logits, 0), nll_of(logits, 1)
        scores = preference_scores(forget, SHAPE)
        optimiser.zero_grad()
        retain = (forget.token_mean + other.token_mean) / 2
        lagrangian(retain, scores, dual).backward()
        optimiser.step()
        dual = ascend(dual, [summed(scores)], 0.1)
    return nll_of(logits, 0).mean.item(), dual


def test_the_walk_ends_at_the_threshold_and_at_the_price_of_it() -> None:
    forgotten, dual = descend(threshold=1.5, steps=200)
    assert forgotten == pytest.approx(1.5, abs=2e-3)
    # ∇L_r = Ω ∇S_u with p = e^−1.5: (½ − p) = Ω (1 − p), so Ω = 0.2769 / 0.7769.
    assert dual.price == pytest.approx(0.35640, rel=1e-2)


def test_what_is_forgotten_already_costs_nothing() -> None:
    forgotten, dual = descend(threshold=0.01, steps=60)
    assert dual.price == 0.0
    assert forgotten == pytest.approx(math.log(2), abs=1e-3)  # the optimum of L_r alone


def test_a_second_price_pulls_back_what_was_forgotten_too_much() -> None:
    """All that is retained pushes the answer away; held at two nats, it stays known that well."""
    logits = torch.nn.Parameter(torch.tensor([-3.0, 0.0], dtype=torch.float64))
    upper, optimiser = init(threshold=-2.0, highest=0.0), torch.optim.SGD([logits], lr=1.0)
    for _ in range(200):
        scores = -nll_of(logits, 0).mean
        optimiser.zero_grad()
        lagrangian(nll_of(logits, 1).token_mean, scores, upper).backward()
        optimiser.step()
        upper = ascend(upper, [summed(scores)], 0.1)
    assert nll_of(logits, 0).mean.item() == pytest.approx(2.0, abs=2e-3)
    # ∇L_r = Ω ∇S̄ with p = e^−2: p = Ω (1 − p), so Ω = 0.13534 / 0.86466.
    assert upper.price == pytest.approx(0.15652, rel=1e-2)
