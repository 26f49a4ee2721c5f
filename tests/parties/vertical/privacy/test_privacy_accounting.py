"""ε equals the closed form and lies between other accountants."""

import math

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from models.noise import keep_probability
from parties.report.quantities import format_epsilon
from parties.vertical.privacy.accounting import (
    SENSITIVITY,
    Relation,
    epsilon_of,
)

relations = st.sampled_from(["replace_one", "zero_out"])
multipliers = st.floats(0.5, 60.0)
visits = st.integers(1, 30)
deltas = st.floats(-8.0, -3.0).map(lambda power: 10.0**power)


def delta_of(epsilon: float, mu: float) -> float:
    """The closed form of a Gaussian mechanism of sensitivity over noise μ (arXiv 1805.06530)."""
    log_term = norm.logcdf(-mu / 2 - epsilon / mu) + epsilon
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(log_term))


@pytest.mark.parametrize(("z", "epsilon"), [(4.0, 1.99), (8.0, 0.93), (16.0, 0.43)])
def test_epsilon_of_a_single_release(z: float, epsilon: float) -> None:
    assert epsilon_of(1 / z**2, "replace_one", 1e-5) == pytest.approx(epsilon, abs=0.006)


@pytest.mark.parametrize(("z", "epsilon"), [(1.0, 46.2), (4.0, 7.5), (8.0, 3.3)])
def test_epsilon_of_ten_visits(z: float, epsilon: float) -> None:
    assert epsilon_of(10 / z**2, "replace_one", 1e-5) == pytest.approx(epsilon, abs=0.06)


@given(relations, multipliers, visits, deltas)
@settings(max_examples=200)
def test_epsilon_equals_the_closed_form(
    relation: Relation, z: float, releases: int, delta: float
) -> None:
    epsilon_found = epsilon_of(releases / z**2, relation, delta)
    mu = SENSITIVITY[relation] * math.sqrt(releases) / z
    if epsilon_found:
        assert delta_of(epsilon_found, mu) == pytest.approx(delta, rel=1e-6)
    else:
        assert delta_of(0.0, mu) <= delta * (1 + 1e-9)


@given(relations, st.floats(2.0, 60.0), visits, deltas)
@settings(max_examples=12)
def test_epsilon_lies_between_the_other_accountants(
    relation: Relation, z: float, releases: int, delta: float
) -> None:
    """A privacy loss distribution rounded down lies below, one rounded up and Rényi DP above."""
    epsilon_found, sensitivity = epsilon_of(releases / z**2, relation, delta), SENSITIVITY[relation]
    # T releases of one row are one release with noise smaller by √T (arXiv 1905.02383, Cor. 3.3).
    std = z / math.sqrt(releases)
    below, above = (
        pld.from_gaussian_mechanism(
            std, sensitivity=sensitivity, value_discretization_interval=1e-3,
            pessimistic_estimate=rounded_up,
        ).get_epsilon_for_delta(delta)
        for rounded_up in (False, True)
    )  # fmt: skip
    assert below - 1e-9 <= epsilon_found <= above + 1e-9
    assert above - epsilon_found <= 1e-3
    accountant = RdpAccountant()
    event = GaussianDpEvent(z / sensitivity)
    accountant.compose(SelfComposedDpEvent(event, releases))
    assert accountant.get_epsilon(delta) >= epsilon_found - 1e-9


def test_composition_equals_a_composed_distribution() -> None:
    single = pld.from_gaussian_mechanism(4.0, sensitivity=2.0)
    composed = single.self_compose(10).get_epsilon_for_delta(1e-5)
    assert epsilon_of(10 / 4.0**2, "replace_one", 1e-5) == pytest.approx(composed, abs=1e-3)


@given(relations, multipliers, visits, deltas)
@settings(max_examples=200)
def test_more_visits_less_noise_and_smaller_delta_cost_more(
    relation: Relation, z: float, releases: int, delta: float
) -> None:
    epsilon_found = epsilon_of(releases / z**2, relation, delta)
    assert epsilon_of((releases + 1) / z**2, relation, delta) >= epsilon_found
    assert epsilon_of(releases / (0.9 * z) ** 2, relation, delta) >= epsilon_found
    assert epsilon_of(releases / z**2, relation, delta / 3) >= epsilon_found
    assert epsilon_of(releases / z**2, "replace_one", delta) >= epsilon_found


def test_no_release_costs_zero_and_unbounded_release_costs_infinity() -> None:
    assert epsilon_of(0.0, "replace_one", 1e-5) == 0
    assert epsilon_of(math.inf, "zero_out", 1e-5) == math.inf


@given(st.floats(1e-6, 500.0))
def test_epsilon_is_printed_rounded_up(epsilon: float) -> None:
    assert epsilon <= float(format_epsilon(epsilon)) <= epsilon * 1.002


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_randomised_response_equals_the_library(classes: int, epsilon: float) -> None:
    even = (1 - keep_probability(epsilon, classes)) * classes / (classes - 1)
    epsilon_found = pld.from_randomized_response(even, classes).get_epsilon_for_delta(0)
    assert epsilon_found == pytest.approx(epsilon, abs=1e-3)
