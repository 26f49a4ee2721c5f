"""Tests of forget quality: the hand sample, which law says what, and p beyond small numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import kolmogorov
from scipy.stats import kstwo

from unlearning.audit.language import forget_quality as module
from unlearning.audit.language.forget_quality import forget_quality

OURS = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5])
THEIRS = torch.tensor([0.15, 0.35, 0.55, 0.65, 0.75])
samples = st.lists(st.floats(0.015625, 64.0), min_size=1, max_size=12)


def test_five_against_five_by_hand() -> None:
    found = forget_quality(OURS, THEIRS)
    assert found.distance == pytest.approx(0.6, rel=1e-12)
    assert found.p == pytest.approx(0.357143, abs=5e-7)
    # 90 of the C(10, 5) = 252 orders of both samples are as far apart.
    assert found.p == pytest.approx(90 / 252, rel=1e-9)
    assert found.log10_p == pytest.approx(math.log10(90 / 252), rel=1e-9)
    assert (found.law, found.unlearned, found.retrained) == ("exact", 5, 5)


def test_the_asymptotic_law_is_that_of_one_sample_of_rounded_size() -> None:
    found = forget_quality(OURS, THEIRS, "asymptotic")
    assert found.law == "asymptotic"
    assert found.p == pytest.approx(0.32, rel=1e-6)
    # nm/(n + m) = 2.5 rounds to 2.
    assert found.p == pytest.approx(float(kstwo.sf(0.6, 2)), rel=1e-9)
    # Neither the limit, nor the first term of its series (Eq 15–17), is that number.
    assert float(kolmogorov(math.sqrt(2.5) * 0.6)) == pytest.approx(0.3291048, rel=1e-6)
    assert 2 * math.exp(-2 * 0.6**2 * 2.5) == pytest.approx(0.3305978, rel=1e-6)


def test_a_model_is_not_told_from_itself() -> None:
    found = forget_quality(OURS, OURS)
    assert (found.distance, found.p, found.log10_p) == (0.0, 1.0, 0.0)


def test_four_hundred_rows_wholly_apart() -> None:
    found = forget_quality(torch.linspace(0, 1, 400), torch.linspace(2, 3, 400))
    log10_orders = (math.lgamma(801) - 2 * math.lgamma(401)) / math.log(10)
    assert found.distance == 1.0
    assert found.log10_p == pytest.approx(math.log10(2) - log10_orders, rel=1e-9)


def test_p_below_the_smallest_number_keeps_its_size() -> None:
    found = forget_quality(torch.linspace(0, 1, 1000), torch.linspace(2, 3, 1000))
    assert found.p == 0.0
    # 2 exp(−2 · 1² · 500), which the exact 2 / C(2000, 1000) does not exceed.
    assert found.log10_p == pytest.approx(math.log10(2) - 1000 / math.log(10), rel=1e-9)


def test_where_scipy_cannot_count_the_law_says_so() -> None:
    """Five against five at D = 0.2: its count of paths exceeds 1 by rounding."""
    ours = torch.tensor([0.0, 2.0, 4.0, 6.0, 8.0])
    found = forget_quality(ours, ours + 1)
    assert found.distance == pytest.approx(0.2)
    assert found.law == "asymptotic"
    assert found.p == 1.0


def test_ratios_without_bound_have_a_place() -> None:
    found = forget_quality(torch.tensor([0.0, math.inf]), torch.tensor([0.0, 1.0]))
    assert found.distance == 0.5


@given(samples, samples)
def test_distance_is_the_same_for_ratios_their_inverses_and_logarithms(
    ours: list[float], theirs: list[float]
) -> None:
    a, b = (torch.tensor(each, dtype=torch.float32).double() for each in (ours, theirs))
    plain = forget_quality(a, b)
    assert forget_quality(a.log(), b.log()).distance == plain.distance
    assert forget_quality(1 / a, 1 / b).distance == pytest.approx(plain.distance, abs=1e-12)
    assert forget_quality(b, a).distance == pytest.approx(plain.distance, abs=1e-12)
    assert 0.0 <= plain.p <= 1.0


@pytest.mark.parametrize("ours", [[], [0.1, math.nan]])
def test_a_sample_that_is_none_is_refused(ours: list[float]) -> None:
    with pytest.raises(ValueError, match="unlearned model's"):
        forget_quality(torch.tensor(ours), THEIRS)


def test_a_sample_too_large_for_the_exact_law_is_refused() -> None:
    rows = torch.linspace(0, 1, module.MOST + 1)
    with pytest.raises(ValueError, match="take asymptotic"):
        forget_quality(rows, rows)
    assert forget_quality(rows, rows, "asymptotic").p == 1.0
