"""Tests of answer probabilities and truth ratios: hand numbers, and what cannot overflow."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from unlearning.audit.language.probability import mean_nll, option_probability, probability
from unlearning.audit.language.truth_ratio import (
    arithmetic_truth_ratio,
    forget_truth_ratio,
    geometric_truth_ratio,
    retained_truth_ratio,
)

PARAPHRASE = [0.4]
PERTURBED = [[0.1, 0.2, 0.05]]
losses = st.floats(0.0, 50.0)


def nll(probabilities: object) -> Tensor:
    return -torch.tensor(probabilities, dtype=torch.float64).log()


def test_mean_loss_and_probability_by_hand() -> None:
    log_probs = -nll([[0.5, 0.5, 0.01], [0.25, 1.0, 1.0]])
    found = mean_nll(log_probs, torch.tensor([[1, 1, 0], [1, 1, 0]]))
    assert found.tolist() == pytest.approx([math.log(2), math.log(2)], rel=1e-12)
    assert probability(found).tolist() == pytest.approx([0.5, 0.5], rel=1e-12)


def test_what_is_masked_may_be_anything() -> None:
    log_probs = torch.tensor([[-1.0, math.nan, math.inf, -math.inf]])
    assert mean_nll(log_probs, torch.tensor([[True, False, False, False]])).tolist() == [1.0]


@pytest.mark.parametrize(
    ("log_probs", "mask", "told"),
    [
        ([[-1.0]], [[0]], r"rows \[0\] have no token"),
        ([[0.5]], [[1]], "were losses given"),
        ([[math.nan]], [[1]], "were losses given"),
        ([[-1.0, -1.0]], [[1]], r"\[1, 2\] and mask \[1, 1\]"),
    ],
)
def test_log_probabilities_that_are_none_are_refused(
    log_probs: list[list[float]], mask: list[list[int]], told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        mean_nll(torch.tensor(log_probs), torch.tensor(mask))


def test_probability_among_options_by_hand() -> None:
    found = option_probability(nll([0.4, 0.2]), nll([[0.2, 0.1, 0.1], [0.2, 0.2, 0.2]]))
    assert found.tolist() == pytest.approx([0.5, 0.25], rel=1e-12)


def test_probability_among_options_that_are_all_next_to_impossible() -> None:
    found = option_probability(torch.tensor([1000.0]), torch.tensor([[1000.0, 1000.0, 1000.0]]))
    assert found.item() == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("wrong", [(2,), (1, 3), (2, 0)])
def test_options_of_other_questions_are_refused(wrong: tuple[int, ...]) -> None:
    for formed in (option_probability, arithmetic_truth_ratio, geometric_truth_ratio):
        with pytest.raises(ValueError, match="beside"):
            formed(torch.ones(2), torch.ones(wrong))


def test_truth_ratios_by_hand() -> None:
    arithmetic = arithmetic_truth_ratio(nll(PARAPHRASE), nll(PERTURBED))
    geometric = geometric_truth_ratio(nll(PARAPHRASE), nll(PERTURBED))
    assert arithmetic.item() == pytest.approx(0.35 / 3 / 0.4, rel=1e-12)
    assert arithmetic.item() == pytest.approx(0.291667, abs=5e-7)
    assert geometric.item() == pytest.approx(0.25, rel=1e-12)
    assert forget_truth_ratio(arithmetic) == pytest.approx(0.291667, abs=5e-7)
    assert forget_truth_ratio(geometric) == pytest.approx(0.25, rel=1e-12)
    assert retained_truth_ratio(arithmetic) == pytest.approx(0.708333, abs=5e-7)
    assert retained_truth_ratio(geometric) == pytest.approx(0.75, rel=1e-12)


def test_summaries_where_the_false_answers_are_likelier() -> None:
    ratios = torch.tensor([0.5, 4.0])
    assert forget_truth_ratio(ratios) == pytest.approx((0.5 + 0.25) / 2, rel=1e-12)
    assert retained_truth_ratio(ratios) == pytest.approx((0.5 + 0.0) / 2, rel=1e-12)


def test_summaries_of_ratios_beyond_numbers() -> None:
    ratios = arithmetic_truth_ratio(torch.tensor([0.0, 2000.0]), torch.tensor([[2000.0], [0.0]]))
    assert ratios.tolist() == [0.0, math.inf]
    assert forget_truth_ratio(ratios) == 0.0
    assert retained_truth_ratio(ratios) == 0.5


@given(losses, st.lists(losses, min_size=1, max_size=5))
def test_geometric_mean_is_never_above_the_arithmetic(true: float, false: list[float]) -> None:
    paraphrased, perturbed = torch.tensor([true]), torch.tensor([false])
    low = geometric_truth_ratio(paraphrased, perturbed).item()
    high = arithmetic_truth_ratio(paraphrased, perturbed).item()
    assert low <= high * (1 + 1e-9)


@given(losses, losses)
def test_forget_summary_does_not_care_which_side_is_likelier(one: float, other: float) -> None:
    there = arithmetic_truth_ratio(torch.tensor([one]), torch.tensor([[other]]))
    back = arithmetic_truth_ratio(torch.tensor([other]), torch.tensor([[one]]))
    assert forget_truth_ratio(there) == pytest.approx(forget_truth_ratio(back), rel=1e-6)
    assert 0.0 <= forget_truth_ratio(there) <= 1.0
