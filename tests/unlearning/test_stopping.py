"""Tests of the stopping rule: each reason, and which of them roll back."""

import pytest

from unlearning.stopping import Decision, IterationProgress, StoppingLimits, stopping_decision

LIMITS = StoppingLimits(iterations=10, utility_floor=0.8, shortfall=0.1, change=1e-3)


def progress(**values: float | None) -> IterationProgress:
    usual = {"iteration": 3, "finite": True, "shortfall": 1.0, "change": 0.5, "utility": 0.9}
    return IterationProgress(**(usual | values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        ({}, Decision.CONTINUE),
        ({"utility": None}, Decision.CONTINUE),
        ({"finite": False, "utility": 0.1, "iteration": 9}, Decision.NOT_FINITE),
        ({"utility": 0.79, "iteration": 9}, Decision.UTILITY_LOST),
        ({"shortfall": 0.1, "change": 1e-3}, Decision.CONVERGED),
        ({"shortfall": -2.0, "change": 1e-4}, Decision.CONVERGED),
        ({"shortfall": 0.2, "change": 1e-4}, Decision.CONTINUE),
        ({"shortfall": 0.1, "change": 2e-3}, Decision.CONTINUE),
        ({"iteration": 9}, Decision.OUT_OF_ITERATIONS),
        ({"utility": 0.1, "recovering": True}, Decision.CONTINUE),
        ({"utility": 0.1, "recovering": True, "change": 1e-4, "shortfall": 0.0}, Decision.CONTINUE),
        ({"utility": 0.1, "recovering": True, "iteration": 9}, Decision.UTILITY_LOST),
        ({"utility": 0.9, "recovering": True, "iteration": 9}, Decision.OUT_OF_ITERATIONS),
    ],
)
def test_the_most_serious_reason_decides(
    values: dict[str, float | None], decision: Decision
) -> None:
    assert stopping_decision(progress(**values), LIMITS) is decision


def test_only_harm_is_rolled_back() -> None:
    harmful = {decision for decision in Decision if decision.rolls_back}
    assert harmful == {Decision.UTILITY_LOST, Decision.NOT_FINITE}


def test_every_decision_but_continue_stops() -> None:
    assert [decision for decision in Decision if not decision.stops] == [Decision.CONTINUE]


def test_a_nan_score_never_counts_as_converged() -> None:
    stuck = progress(shortfall=float("nan"), change=1e-4)
    assert stopping_decision(stuck, LIMITS) is Decision.CONTINUE
