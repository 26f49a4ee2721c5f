"""Tests of the comparison with Retrain: references, gaps and verdicts by hand."""

from typing import Any

import pytest
from sample_metrics import sample

from parties.report import quantities
from parties.report.comparison import (
    FORGOTTEN_RATIO,
    MEASURES,
    TEST_ACCURACY,
    Measure,
    Outcome,
    Reference,
    is_met,
    outcome,
    reference,
)
from parties.report.sentences import closing, gap_text, proof_text, reference_text

FORGOTTEN_ACCURACY, BALANCED, AUC = MEASURES[2:5]


@pytest.fixture
def request_() -> dict[str, Any]:
    found: dict[str, Any] = sample()["requests"][0]
    return found


def put(request: dict[str, Any], name: str, measure: Measure, value: float | None) -> None:
    """Set one figure of a method."""
    method = next(method for method in request["methods"] if method["name"] == name)
    part = method
    for key in measure.path[:-1]:
        part = part[key]
    part[measure.path[-1]] = value


def drop(request: dict[str, Any], *names: str) -> None:
    request["methods"] = [one for one in request["methods"] if one["name"] not in names]


def test_the_reference_is_the_mean_and_deviation_of_independent_retrains(request_: Any) -> None:
    found = reference(request_, TEST_ACCURACY.path)  # 0.969, 0.972, 0.966; not the paired one
    assert found is not None
    assert found.mean == pytest.approx(0.969)
    assert found.spread == pytest.approx(0.003)
    assert found.seeds == 3


def test_one_retrain_has_no_spread(request_: Any) -> None:
    drop(request_, "retrain-2", "retrain-3")
    found = reference(request_, TEST_ACCURACY.path)
    assert found == Reference(0.969, None, 1)
    assert gap_text(TEST_ACCURACY, 0.965, found) == ("−0.4\u202fpts",)
    assert reference_text(TEST_ACCURACY, found) == ("96.9\u202f%", "one seed: no spread")
    assert proof_text(request_, FORGOTTEN_ACCURACY).startswith("unknown")


def test_a_gap_is_in_points_and_in_spreads() -> None:
    at_retrain = Reference(0.969, 0.002, 3)
    assert gap_text(TEST_ACCURACY, 0.965, at_retrain) == ("−0.4\u202fpts", "−2.0\u202fsd")
    assert gap_text(TEST_ACCURACY, 0.969, at_retrain) == ("0.0\u202fpts", "0.0\u202fsd")
    assert gap_text(AUC, None, at_retrain) == ()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (4.1, 1.1, Outcome.REACHED),  # the farthest Retrain is at 1.08, printed 1.1
        (4.1, 1.16, Outcome.NEARER),
        (4.1, 4.06, Outcome.NO_NEARER),  # as printed
        (4.1, 5.0, Outcome.NO_NEARER),
        (1.1, 1.0, Outcome.MOOT),
        (None, 1.0, Outcome.UNKNOWN),
        (4.1, None, Outcome.UNKNOWN),
    ],
)
def test_the_verdict(request_: Any, before: Any, after: Any, expected: Outcome) -> None:
    put(request_, "original", FORGOTTEN_RATIO, before)
    put(request_, "fedora", FORGOTTEN_RATIO, after)
    assert outcome(request_) is expected


def test_a_figure_that_the_original_meets_proves_nothing(request_: Any) -> None:
    put(request_, "original", FORGOTTEN_RATIO, 1.0)
    assert proof_text(request_, FORGOTTEN_RATIO) == "no: the original already meets it"
    assert closing(request_).endswith("so here it proves nothing.")


def test_a_figure_far_from_retrain_can_show_forgetting(request_: Any) -> None:
    assert proof_text(request_, FORGOTTEN_RATIO) == "yes: original at 4.1\u202f×"
    assert proof_text(request_, FORGOTTEN_ACCURACY) == "yes: original 7\u202fsd off"
    assert proof_text(request_, TEST_ACCURACY) == "not meant to"


def test_an_attack_whose_interval_holds_retrain_proves_nothing(request_: Any) -> None:
    assert (is_met(request_, AUC), is_met(request_, BALANCED)) == (False, False)
    request_["methods"][0]["membership"]["interval"] = [0.5, 0.7]
    assert (is_met(request_, AUC), is_met(request_, BALANCED)) == (True, True)


def test_two_spreads_are_near(request_: Any) -> None:
    put(request_, "original", FORGOTTEN_ACCURACY, 0.9327 + 2 * 0.0094)
    assert is_met(request_, FORGOTTEN_ACCURACY)
    put(request_, "original", FORGOTTEN_ACCURACY, 0.9327 + 2 * 0.0096)
    assert not is_met(request_, FORGOTTEN_ACCURACY)


def test_the_closing_sentence(request_: Any) -> None:
    assert closing(request_) == (
        "FedORA's outputs on the forgotten rows are 1.3 times as far from a Retrain as another "
        "Retrain is (original: 4.1); test accuracy 0.4 points below Retrain; "
        "18\u202f% of Retrain's rows exchanged."
    )


def test_the_closing_sentence_claims_nothing_that_was_not_run(request_: Any) -> None:
    drop(request_, "retrain", "retrain-2", "retrain-3")
    put(request_, "fedora", FORGOTTEN_RATIO, None)
    assert closing(request_) == (
        "FedORA's outputs on the forgotten rows were not compared with a Retrain's; "
        "18\u202f% of Retrain's rows exchanged."
    )


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (quantities.number(None, 2), "not run"),
        (quantities.number(-1.5, 1), "−1.5"),
        (quantities.signed(-0.04, 1), "0.0"),
        (quantities.signed(0.06, 1), "+0.1"),
        (quantities.share(0.185, 0), "18\u202f%"),
        (quantities.count(1534), "1,534"),
        (quantities.seconds(0.5), "0.50\u202fs"),
        (quantities.seconds(252), "4\u202fmin 12\u202fs"),
        (quantities.size(999), "999\u202fB"),
        (quantities.size(41_300_000), "41.3\u202fMB"),
        (quantities.size(5e15), "5,000.0\u202fTB"),
        (quantities.listing(["a"]), "a"),
        (quantities.listing(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_quantities_as_people_read_them(shown: str, expected: str) -> None:
    assert shown == expected
