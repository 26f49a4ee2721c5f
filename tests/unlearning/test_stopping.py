"""Tests of the stops and guards: each reason by its name, and which of them step back."""

import pytest

from unlearning.stopping import Decision, Limits, Progress, decide

LIMITS = Limits(iterations=10, utility_floor=0.8, slack=0.1, still=1e-3)


def progress(**facts: float | None) -> Progress:
    usual = {"iteration": 3, "finite": True, "shortfall": 1.0, "change": 0.5, "utility": 0.9}
    return Progress(**(usual | facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        ({}, Decision.GO_ON),
        ({"utility": None}, Decision.GO_ON),
        ({"finite": False, "utility": 0.1, "iteration": 9}, Decision.NOT_FINITE),
        ({"utility": 0.79, "iteration": 9}, Decision.UTILITY_LOST),
        ({"shortfall": 0.1, "change": 1e-3}, Decision.CONVERGED),
        ({"shortfall": -2.0, "change": 1e-4}, Decision.CONVERGED),
        ({"shortfall": 0.2, "change": 1e-4}, Decision.GO_ON),
        ({"shortfall": 0.1, "change": 2e-3}, Decision.GO_ON),
        ({"iteration": 9}, Decision.OUT_OF_ITERATIONS),
        ({"utility": 0.1, "recovering": True}, Decision.GO_ON),
        ({"utility": 0.1, "recovering": True, "change": 1e-4, "shortfall": 0.0}, Decision.GO_ON),
        ({"utility": 0.1, "recovering": True, "iteration": 9}, Decision.UTILITY_LOST),
        ({"utility": 0.9, "recovering": True, "iteration": 9}, Decision.OUT_OF_ITERATIONS),
    ],
)
def test_the_gravest_reason_decides(facts: dict[str, float | None], decision: Decision) -> None:
    assert decide(progress(**facts), LIMITS) is decision


def test_only_harm_is_rolled_back() -> None:
    harmful = {decision for decision in Decision if decision.rolls_back}
    assert harmful == {Decision.UTILITY_LOST, Decision.NOT_FINITE}


def test_everything_but_going_on_stops() -> None:
    assert [decision for decision in Decision if not decision.stops] == [Decision.GO_ON]


def test_a_score_that_is_not_a_number_never_counts_as_converged() -> None:
    stuck = progress(shortfall=float("nan"), change=1e-4)
    assert decide(stuck, LIMITS) is Decision.GO_ON
