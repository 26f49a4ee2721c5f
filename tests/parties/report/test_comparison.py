"""Tests of the comparison with Retrain: references, gaps and results, computed by hand."""

from typing import Any

import pytest
from sample_metrics import sample

from parties.report import quantities
from parties.report.columns import (
    ATTACK_AUC,
    BALANCED_ATTACK,
    FORGOTTEN_ACCURACY,
    FORGOTTEN_RATIO,
    TEST_ACCURACY,
    Column,
)
from parties.report.comparison import (
    ComparisonResult,
    Reference,
    comparison_result,
    original_meets,
    retrain_reference,
)
from parties.report.record import Request
from parties.report.sentences import closing_sentence, gap_text, proof_text, reference_text


@pytest.fixture
def request_() -> dict[str, Any]:
    request: dict[str, Any] = sample()["requests"][0]
    return request


def typed(request: dict[str, Any]) -> Request:
    return Request(**request)


def put(request: dict[str, Any], name: str, column: Column, value: float | None) -> None:
    """Set one figure of a method."""
    method = next(method for method in request["methods"] if method["name"] == name)
    part, key = column.source
    if part == "divergence":
        method[part][key]["ratio"] = value
    else:
        method[part][key] = value


def drop(request: dict[str, Any], *names: str) -> None:
    request["methods"] = [one for one in request["methods"] if one["name"] not in names]


def test_the_reference_is_the_mean_and_deviation_of_independent_retrains(request_: Any) -> None:
    reference = retrain_reference(
        typed(request_), TEST_ACCURACY
    )  # 0.969, 0.972, 0.966; not the paired one
    assert reference is not None
    assert reference.mean == pytest.approx(0.969)
    assert reference.spread == pytest.approx(0.003)
    assert reference.seeds == 3


def test_one_retrain_has_no_spread(request_: Any) -> None:
    drop(request_, "retrain-2", "retrain-3")
    reference = retrain_reference(typed(request_), TEST_ACCURACY)
    assert reference == Reference(0.969, None, 1)
    assert gap_text(TEST_ACCURACY, 0.965, reference) == ("−0.4\u202fpts",)
    assert reference_text(TEST_ACCURACY, reference) == ("96.9\u202f%", "one seed: no spread")
    assert proof_text(typed(request_), FORGOTTEN_ACCURACY).startswith("unknown")


def test_a_gap_is_in_points_and_in_spreads() -> None:
    at_retrain = Reference(0.969, 0.002, 3)
    assert gap_text(TEST_ACCURACY, 0.965, at_retrain) == ("−0.4\u202fpts", "−2.0\u202fsd")
    assert gap_text(TEST_ACCURACY, 0.969, at_retrain) == ("0.0\u202fpts", "0.0\u202fsd")
    assert gap_text(ATTACK_AUC, None, at_retrain) == ()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (4.1, 1.1, ComparisonResult.REACHED),  # the farthest Retrain is at 1.08, printed 1.1
        (4.1, 1.16, ComparisonResult.NEARER),
        (4.1, 4.06, ComparisonResult.NO_NEARER),  # as printed
        (4.1, 5.0, ComparisonResult.NO_NEARER),
        (1.1, 1.0, ComparisonResult.UNINFORMATIVE),
        (None, 1.0, ComparisonResult.UNKNOWN),
        (4.1, None, ComparisonResult.UNKNOWN),
    ],
)
def test_result_of_a_comparison(
    request_: Any, before: Any, after: Any, expected: ComparisonResult
) -> None:
    put(request_, "original", FORGOTTEN_RATIO, before)
    put(request_, "fedora", FORGOTTEN_RATIO, after)
    assert comparison_result(typed(request_)) is expected


def test_metric_of_the_original_close_to_retrain_is_uninformative(request_: Any) -> None:
    put(request_, "original", FORGOTTEN_RATIO, 1.0)
    assert proof_text(typed(request_), FORGOTTEN_RATIO) == "no: the original is as near to Retrain"
    assert closing_sentence(typed(request_)).endswith("so this figure proves nothing here.")


def test_metric_of_the_original_far_from_retrain_is_informative(request_: Any) -> None:
    assert proof_text(typed(request_), FORGOTTEN_RATIO) == "yes: original at 4.1\u202f×"
    assert proof_text(typed(request_), FORGOTTEN_ACCURACY) == "yes: original 7\u202fsd off"
    assert proof_text(typed(request_), TEST_ACCURACY) == "not its purpose"


@pytest.mark.parametrize("column", [ATTACK_AUC, BALANCED_ATTACK])
def test_attack_with_retrain_in_its_interval_is_uninformative(
    request_: Any, column: Column
) -> None:
    assert original_meets(typed(request_), column) is False
    request_["methods"][0]["membership"]["interval"] = [0.5, 0.7]
    assert original_meets(typed(request_), column) is True


def test_gap_within_two_spreads_is_close(request_: Any) -> None:
    put(request_, "original", FORGOTTEN_ACCURACY, 0.9327 + 2 * 0.0094)
    assert original_meets(typed(request_), FORGOTTEN_ACCURACY)
    put(request_, "original", FORGOTTEN_ACCURACY, 0.9327 + 2 * 0.0096)
    assert not original_meets(typed(request_), FORGOTTEN_ACCURACY)


def test_the_closing_sentence(request_: Any) -> None:
    assert closing_sentence(typed(request_)) == (
        "FedORA's outputs on the forgotten rows are 1.3 times as far from a Retrain as another "
        "Retrain is (original: 4.1); test accuracy 0.4 points below Retrain; "
        "18\u202f% of Retrain's rows exchanged."
    )


def test_closing_sentence_omits_audits_that_did_not_run(request_: Any) -> None:
    drop(request_, "retrain", "retrain-2", "retrain-3")
    put(request_, "fedora", FORGOTTEN_RATIO, None)
    assert closing_sentence(typed(request_)) == (
        "FedORA's outputs on the forgotten rows were not compared with a Retrain's; "
        "18\u202f% of Retrain's rows exchanged."
    )


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (quantities.format_number(None, 2), "not run"),
        (quantities.format_number(-1.5, 1), "−1.5"),
        (quantities.format_difference(-0.04, 1), "0.0"),
        (quantities.format_difference(0.06, 1), "+0.1"),
        (quantities.format_percent(0.185, 0), "18\u202f%"),
        (quantities.format_count(1534), "1,534"),
        (quantities.format_seconds(0.5), "0.50\u202fs"),
        (quantities.format_seconds(252), "4\u202fmin 12\u202fs"),
        (quantities.format_size(999), "999\u202fB"),
        (quantities.format_size(41_300_000), "41.3\u202fMB"),
        (quantities.format_size(5e15), "5,000.0\u202fTB"),
        (quantities.join_words(["a"]), "a"),
        (quantities.join_words(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_formatted_quantities(shown: str, expected: str) -> None:
    assert shown == expected
