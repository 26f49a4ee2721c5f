"""Tests of the TOFU metrics: probability, truth ratio, forget quality and model utility."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import kolmogorov
from scipy.stats import kstwo
from torch import Tensor

from unlearning.audit.language.tofu import (
    MAX_EXACT_ROWS,
    QuestionSetScores,
    answer_probability,
    arithmetic_truth_ratio,
    forget_quality,
    forget_truth_ratio,
    geometric_truth_ratio,
    harmonic_mean,
    model_utility,
    option_probability,
    retained_truth_ratio,
)

PARAPHRASE = [0.4]
PERTURBED = [[0.1, 0.2, 0.05]]
losses = st.floats(0.0, 50.0)
OURS = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
THEIRS = torch.tensor([0.15, 0.35, 0.55, 0.65, 0.75])
samples = st.lists(st.floats(0.015625, 64.0), min_size=1, max_size=12)
NINE = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]


def nll(probabilities: object) -> Tensor:
    return -torch.tensor(probabilities, dtype=torch.float64).log()


def test_answer_probability_by_hand() -> None:
    result = answer_probability(torch.tensor([math.log(2), 0.0]))
    assert result.tolist() == pytest.approx([0.5, 1.0])


def test_probability_among_options_by_hand() -> None:
    result = option_probability(nll([0.4, 0.2]), nll([[0.2, 0.1, 0.1], [0.2, 0.2, 0.2]]))
    assert result.tolist() == pytest.approx([0.5, 0.25], rel=1e-12)


def test_probability_among_very_unlikely_options() -> None:
    result = option_probability(torch.tensor([1000.0]), torch.tensor([[1000.0, 1000.0, 1000.0]]))
    assert result.item() == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("wrong", [(2,), (1, 3), (2, 0)])
def test_options_of_another_shape_are_refused(wrong: tuple[int, ...]) -> None:
    for metric in (option_probability, arithmetic_truth_ratio, geometric_truth_ratio):
        with pytest.raises(ValueError, match="do not match"):
            metric(torch.ones(2), torch.ones(wrong))


def test_truth_ratios_by_hand() -> None:
    arithmetic = arithmetic_truth_ratio(nll(PARAPHRASE), nll(PERTURBED))
    assert arithmetic.item() == pytest.approx(0.35 / 3 / 0.4, rel=1e-12)
    assert arithmetic.item() == pytest.approx(0.291667, abs=5e-7)
    assert forget_truth_ratio(arithmetic) == pytest.approx(0.291667, abs=5e-7)
    assert retained_truth_ratio(arithmetic) == pytest.approx(0.708333, abs=5e-7)


def test_geometric_truth_ratio_is_the_inverse_of_that_of_the_public_code() -> None:
    """TOFU's aggregate_eval_stat.py computes exp(mean of the perturbed losses - paraphrased)."""
    result = geometric_truth_ratio(nll(PARAPHRASE), nll(PERTURBED))
    public = (nll(PERTURBED).mean(dim=1) - nll(PARAPHRASE)).exp()
    assert result.item() == pytest.approx(1 / public.item(), rel=1e-12)
    product = float(torch.tensor(PERTURBED, dtype=torch.float64).prod()) ** (1 / 3)
    assert result.item() == pytest.approx(product / 0.4, rel=1e-6)
    assert result.item() < arithmetic_truth_ratio(nll(PARAPHRASE), nll(PERTURBED)).item()


def test_the_two_truth_ratios_can_give_different_forget_qualities() -> None:
    """Only the arithmetic mean of the second model is large: one of its false answers is likely."""
    true = torch.ones(6)
    even = torch.full((6, 2), 2.0) + 0.1 * torch.arange(6.0)[:, None]
    uneven = even + torch.tensor([-1.5, 1.5])
    distances = [
        forget_quality(ratio(true, even), ratio(true, uneven)).distance
        for ratio in (arithmetic_truth_ratio, geometric_truth_ratio)
    ]
    assert distances == pytest.approx([1.0, 0.0])


def test_summaries_of_ratios_above_one() -> None:
    ratios = torch.tensor([0.5, 4.0])
    assert forget_truth_ratio(ratios) == pytest.approx((0.5 + 0.25) / 2, rel=1e-12)
    assert retained_truth_ratio(ratios) == pytest.approx((0.5 + 0.0) / 2, rel=1e-12)


def test_summaries_of_zero_and_infinite_ratios() -> None:
    ratios = arithmetic_truth_ratio(torch.tensor([0.0, 2000.0]), torch.tensor([[2000.0], [0.0]]))
    assert ratios.tolist() == [0.0, math.inf]
    assert forget_truth_ratio(ratios) == 0.0
    assert retained_truth_ratio(ratios) == 0.5


@given(losses, losses)
def test_forget_truth_ratio_is_symmetric(one: float, other: float) -> None:
    ratio = arithmetic_truth_ratio(torch.tensor([one]), torch.tensor([[other]]))
    inverse = arithmetic_truth_ratio(torch.tensor([other]), torch.tensor([[one]]))
    assert forget_truth_ratio(ratio) == pytest.approx(forget_truth_ratio(inverse), rel=1e-6)
    assert 0.0 <= forget_truth_ratio(ratio) <= 1.0


def test_forget_quality_of_five_and_five_by_hand() -> None:
    result = forget_quality(OURS, THEIRS)
    assert result.distance == pytest.approx(0.6, rel=1e-12)
    assert result.p == pytest.approx(0.357143, abs=5e-7)
    # 90 of the C(10, 5) = 252 orders of both samples have a D as large.
    assert result.p == pytest.approx(90 / 252, rel=1e-9)
    assert result.log10_p == pytest.approx(math.log10(90 / 252), rel=1e-9)
    assert (result.law, result.unlearned, result.retrained) == ("exact", 5, 5)


def test_the_asymptotic_law_is_that_of_one_sample_of_rounded_size() -> None:
    result = forget_quality(OURS, THEIRS, "asymptotic")
    assert result.law == "asymptotic"
    assert result.p == pytest.approx(0.32, rel=1e-6)
    # nm/(n + m) = 2.5 rounds to 2.
    assert result.p == pytest.approx(float(kstwo.sf(0.6, 2)), rel=1e-9)
    # Kolmogorov's limit and the first term of its series (Eq 15–17) differ from it.
    assert float(kolmogorov(math.sqrt(2.5) * 0.6)) == pytest.approx(0.3291048, rel=1e-6)
    assert 2 * math.exp(-2 * 0.6**2 * 2.5) == pytest.approx(0.3305978, rel=1e-6)


def test_forget_quality_of_a_model_with_itself() -> None:
    result = forget_quality(OURS, OURS)
    assert (result.distance, result.p, result.log10_p) == (0.0, 1.0, 0.0)


def test_forget_quality_of_disjoint_samples() -> None:
    result = forget_quality(torch.linspace(0, 1, 400), torch.linspace(2, 3, 400))
    log10_orders = (math.lgamma(801) - 2 * math.lgamma(401)) / math.log(10)
    assert result.distance == 1.0
    assert result.log10_p == pytest.approx(math.log10(2) - log10_orders, rel=1e-9)


def test_log_p_below_the_smallest_double_is_a_bound() -> None:
    result = forget_quality(torch.linspace(0, 1, 1000), torch.linspace(2, 3, 1000))
    assert result.p == 0.0
    # 2 exp(−2 · 1² · 500), which the exact 2 / C(2000, 1000) does not exceed.
    assert result.log10_p == pytest.approx(math.log10(2) - 1000 / math.log(10), rel=1e-9)


def test_the_asymptotic_law_replaces_a_failed_exact_count() -> None:
    """For five and five rows with D = 0.2 SciPy's count of paths exceeds 1 by rounding."""
    ours = torch.tensor([0.0, 2.0, 4.0, 6.0, 8.0])
    result = forget_quality(ours, ours + 1)
    assert result.distance == pytest.approx(0.2)
    assert result.law == "asymptotic"
    assert result.p == 1.0


def test_forget_quality_of_infinite_ratios() -> None:
    result = forget_quality(torch.tensor([0.0, math.inf]), torch.tensor([0.0, 1.0]))
    assert result.distance == 0.5


@given(samples, samples)
def test_the_distance_is_invariant_to_monotone_functions(
    ours: list[float], theirs: list[float]
) -> None:
    a, b = (torch.tensor(each, dtype=torch.float32).double() for each in (ours, theirs))
    plain = forget_quality(a, b)
    assert forget_quality(a.log(), b.log()).distance == plain.distance
    assert forget_quality(1 / a, 1 / b).distance == pytest.approx(plain.distance, abs=1e-12)
    assert forget_quality(b, a).distance == pytest.approx(plain.distance, abs=1e-12)
    assert 0.0 <= plain.p <= 1.0


@pytest.mark.parametrize("ours", [[], [0.1, math.nan]])
def test_an_empty_or_nan_sample_is_refused(ours: list[float]) -> None:
    with pytest.raises(ValueError, match="of the unlearned model"):
        forget_quality(torch.tensor(ours), THEIRS)


def test_a_sample_too_large_for_the_exact_law_is_refused() -> None:
    rows = torch.linspace(0, 1, MAX_EXACT_ROWS + 1)
    with pytest.raises(ValueError, match='set law="asymptotic"'):
        forget_quality(rows, rows)
    assert forget_quality(rows, rows, "asymptotic").p == 1.0


def utility(nine: list[float]) -> float:
    sets = [
        QuestionSetScores(probability=p, rouge=r, truth_ratio=t)
        for p, r, t in zip(nine[0::3], nine[1::3], nine[2::3], strict=True)
    ]
    return model_utility(*sets)


def test_model_utility_by_hand() -> None:
    assert utility(NINE) == pytest.approx(0.318137, abs=5e-7)
    assert utility(NINE) == pytest.approx(9 / sum(1 / x for x in NINE), rel=1e-12)


@pytest.mark.parametrize("place", range(9))
def test_one_zero_makes_the_utility_zero(place: int) -> None:
    nine = [*NINE]
    nine[place] = 0.0
    assert utility(nine) == 0.0


def test_scores_next_to_zero_do_not_overflow() -> None:
    assert utility([5e-324] * 9) == 0.0


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_score_outside_its_range_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\]"):
        utility([value, *NINE[1:]])


def test_no_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one score"):
        harmonic_mean([])


@given(st.lists(st.floats(1e-6, 1.0), min_size=9, max_size=9))
def test_utility_is_between_the_smallest_score_and_the_mean(nine: list[float]) -> None:
    assert min(nine) * (1 - 1e-9) <= utility(nine) <= sum(nine) / 9 * (1 + 1e-9)
