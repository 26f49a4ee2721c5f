"""Tests of the comparison with Retrain: references, gaps and results, computed by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from sample_metrics import sample
from torch import Tensor

from parties.report import quantities
from parties.report.columns import (
    ATTACK_AUC,
    BALANCED_ATTACK,
    CANARY_AUC,
    FORGOTTEN_ACCURACY,
    FORGOTTEN_RATIO,
    TEST_ACCURACY,
    TRIGGER_RATE,
    Column,
    visible_columns,
)
from parties.report.comparison import (
    ComparisonResult,
    Reference,
    comparison_result,
    largest_ratio,
    method_value,
    original_meets,
    result_sentence,
    retrain_reference,
)
from parties.report.method_table import method_table
from parties.report.record import Divergence, Request, read_record
from parties.report.sentences import closing_sentence, gap_text, proof_text, reference_text
from parties.report.verdict import request_verdict
from unlearning.audit.divergence import class_distance, distance_ratio, number_distance
from unlearning.audit.intervals import distance_spread, further_value_margin


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
        # The ratios of the Retrains are 0.94, 1.08 and 0.98; twice their deviation is 0.1442. A
        # further Retrain is at most at 1 + 4.303 √(4/3) 0.1442 = 1.716, two Retrains differ by at
        # most 4.303 √2 0.1442 = 0.877.
        (4.1, 1.71, ComparisonResult.REACHED),
        (4.1, 1.72, ComparisonResult.NEARER),
        (4.1, 3.22, ComparisonResult.NEARER),
        (4.1, 3.23, ComparisonResult.NO_NEARER),
        (4.1, 5.0, ComparisonResult.NO_NEARER),
        (1.71, 1.0, ComparisonResult.UNINFORMATIVE),
        (1.72, 1.0, ComparisonResult.REACHED),
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


def test_two_retrains_decide_nothing(request_: Any) -> None:
    drop(request_, "retrain-3")
    assert comparison_result(typed(request_)) is ComparisonResult.UNDECIDED
    assert largest_ratio(typed(request_)) is None
    assert "needs the original and three Retrains" in proof_text(typed(request_), FORGOTTEN_RATIO)
    assert "a further Retrain" not in closing_sentence(typed(request_))


def test_exact_method_is_guaranteed_whatever_is_measured(request_: Any) -> None:
    put(request_, "fedora", FORGOTTEN_RATIO, 5.0)
    assert result_sentence(typed(request_)) == ComparisonResult.NO_NEARER.value
    fedora = next(each for each in request_["methods"] if each["name"] == "fedora")
    fedora["guarantee"] = "exact"
    verdict = request_verdict(typed(request_))
    assert verdict.result is comparison_result(typed(request_)) is ComparisonResult.GUARANTEED
    assert result_sentence(typed(request_)) == "Guaranteed by the method, not by a measurement"


def test_exact_method_without_a_valid_model_guarantees_nothing(request_: Any) -> None:
    put(request_, "fedora", FORGOTTEN_RATIO, None)
    fedora = next(each for each in request_["methods"] if each["name"] == "fedora")
    fedora |= {"guarantee": "exact", "diverged": "The loss is not finite"}
    assert comparison_result(typed(request_)) is ComparisonResult.UNKNOWN


def verdict_on(request: Request, name: str) -> ComparisonResult:
    """The result as if the model ``name`` were delivered, and the original far away."""
    methods = [
        each.model_copy(update={"divergence": {"forgotten": Divergence(js=1.0, ratio=99.0)}})
        if each.name == "original"
        else each.model_copy(update={"guarantee": None})  # an exact method needs no measurement
        for each in request.methods
    ]
    return comparison_result(request.model_copy(update={"chosen": name, "methods": methods}))


def test_paired_retrain_of_the_demo_passes_the_verdict_of_its_run() -> None:
    """Its ratio is above those of three other Retrains: no bare ratio can be a verdict."""
    content = json.loads((Path(__file__).parents[3] / "docs" / "demo.json").read_text())
    request = read_record(content["metrics"]).requests[0]
    ratios = {
        name: method_value(request, name, FORGOTTEN_RATIO)
        for name in ("retrain", "retrain-2", "retrain-3", "retrain-paired", "fedora", "original")
    }
    limit = largest_ratio(request)
    assert limit is not None
    assert (
        max(ratios["retrain"], ratios["retrain-2"], ratios["retrain-3"])
        < (ratios["retrain-paired"])
    )
    for name in ("retrain-paired", "fedora"):
        reached = verdict_on(request, name) is ComparisonResult.REACHED
        assert reached is (ratios[name] < limit)
    assert verdict_on(request, "retrain-paired") is ComparisonResult.REACHED
    uninformative = comparison_result(request) is ComparisonResult.UNINFORMATIVE
    assert uninformative is (ratios["original"] < limit)
    assert f"original: {ratios['original']:.1f}" in closing_sentence(request)


@pytest.mark.parametrize(
    ("distance", "width", "apart"), [(class_distance, 5, 0.5), (number_distance, 1, 0.2)]
)
def test_paired_retrains_pass_at_the_stated_rate(
    distance: Callable[[Tensor, Tensor], float], width: int, apart: float
) -> None:
    """A further Retrain is outside the interval of three in about 2.5 % of the runs, or fewer."""
    generator, passed, runs = torch.Generator().manual_seed(0), 0, 400
    for _ in range(runs):
        scales = 1 + apart * (2 * torch.rand(4, generator=generator) - 1)
        outputs = 2 * torch.randn(40, width, generator=generator)
        models = [outputs + scale * torch.randn(40, width, generator=generator) for scale in scales]
        retrains, paired = models[:3], models[3]
        own = distance_ratio(paired, retrains, distance)
        others = [
            distance_ratio(each, retrains, distance).to_retrain * 3 / 2 / own.between_retrains
            for each in retrains
        ]  # the distance from itself is 0, so the mean over three is two thirds of that over two
        spread = distance_spread(others)
        assert spread is not None
        passed += own.value <= 1 + further_value_margin(spread, 3)
    assert passed / runs >= 0.96


def test_metric_of_the_original_close_to_retrain_is_uninformative(request_: Any) -> None:
    put(request_, "original", FORGOTTEN_RATIO, 1.0)
    proof = proof_text(typed(request_), FORGOTTEN_RATIO)
    assert proof == "no: the original is within the interval of a Retrain"
    assert closing_sentence(typed(request_)).endswith("so this figure proves nothing here.")


def test_metric_of_the_original_far_from_retrain_is_informative(request_: Any) -> None:
    assert proof_text(typed(request_), FORGOTTEN_RATIO) == "yes: original at 4.1\u202f×"
    assert proof_text(typed(request_), FORGOTTEN_ACCURACY) == "yes: original 7\u202fsd off"
    assert proof_text(typed(request_), TEST_ACCURACY) == "not its purpose"


@pytest.mark.parametrize("column", [ATTACK_AUC, BALANCED_ATTACK])
def test_attack_with_retrain_in_its_interval_is_uninformative(
    request_: Any, column: Column
) -> None:
    put(request_, "original", column, 0.611)
    assert original_meets(typed(request_), column) is False
    request_["methods"][0]["membership"]["interval"] = [0.5, 0.7]
    assert original_meets(typed(request_), column) is True


@pytest.mark.parametrize("side", [-1, 1])
def test_gap_within_the_interval_of_a_further_retrain_is_close(request_: Any, side: int) -> None:
    # 4.303 √(4/3) times the deviation 0.009504 is 0.04722.
    put(request_, "original", FORGOTTEN_ACCURACY, 0.93267 + side * 0.0470)
    assert original_meets(typed(request_), FORGOTTEN_ACCURACY)
    put(request_, "original", FORGOTTEN_ACCURACY, 0.93267 + side * 0.0475)
    assert not original_meets(typed(request_), FORGOTTEN_ACCURACY)


def test_mean_line_has_the_largest_ratio_of_a_further_retrain(request_: Any) -> None:
    reference = retrain_reference(typed(request_), FORGOTTEN_RATIO)
    texts = ("1.0\u202f×", "another: up to 1.7\u202f×")
    assert reference_text(FORGOTTEN_RATIO, reference) == texts
    assert reference_text(FORGOTTEN_RATIO, Reference(1.0, None, 2))[1] == "by definition"


@pytest.mark.parametrize("name", ["backdoor_success", "canary_auc"])
def test_planted_rows_have_a_column_only_where_they_were_planted(request_: Any, name: str) -> None:
    column = TRIGGER_RATE if name == "backdoor_success" else CANARY_AUC
    assert column not in visible_columns(typed(request_))
    for method in request_["methods"]:
        shown = {"name": name, "value": 0.75, "n": 9, "direction": "retrain", "status": "ok"}
        empty = dict.fromkeys(("ci95", "retrain_mean", "retrain_sd", "gap", "gap_in_sd"))
        method["figures"] = [*method["figures"], {**shown, **empty, "note": ""}]
    columns = visible_columns(typed(request_))
    assert columns.index(column) + 1 == columns.index(FORGOTTEN_RATIO)
    table = method_table(typed(request_))
    text = "75.0\u202f%" if name == "backdoor_success" else "0.750"
    assert {line.cells[columns.index(column)].value for line in table.lines} == {text}


def test_the_closing_sentence(request_: Any) -> None:
    assert closing_sentence(typed(request_)) == (
        "FedORA's outputs on the forgotten rows are 1.3 times as far from a Retrain as another "
        "Retrain is (a further Retrain: up to 1.7; original: 4.1); test accuracy 0.4 points "
        "below Retrain; 18\u202f% of Retrain's rows exchanged."
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
