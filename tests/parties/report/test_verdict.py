"""The plain verdict on a request: what it says in every case, and that it never flatters."""

import json
from pathlib import Path
from typing import Any

import pytest
from sample_metrics import sample

from parties.report.columns import ATTACK_AUC, FORGOTTEN_ACCURACY, proving_columns
from parties.report.comparison import ComparisonResult
from parties.report.record import Request, read_record
from parties.report.sentences import proof_text
from parties.report.verdict import Verdict, forgetting_figures, request_verdict

RECORDS = Path(__file__).parent / "records"
CERTIFICATE = {
    "steps": [],
    "bound": 0.01,
    "wanted": 0.02,
    "weight": 0.1,
    "epsilon": None,
    "delta": 1e-5,
    "noise": 0.1,
    "assumes": ["convex loss"],
}


def request_of(metrics: dict[str, Any]) -> Request:
    return read_record(metrics).requests[0]


def method(metrics: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in metrics["requests"][0]["methods"] if each["name"] == name
    )
    return found


def figure(metrics: dict[str, Any], name: str) -> dict[str, Any]:
    """The figure ``name`` of the delivered model."""
    figures = method(metrics, "fedora")["figures"]
    found: dict[str, Any] = next(each for each in figures if each["name"] == name)
    return found


def verdict(metrics: dict[str, Any]) -> Verdict:
    return request_verdict(request_of(metrics))


def with_ratio(ratio: float, name: str = "fedora") -> dict[str, Any]:
    metrics = sample()
    method(metrics, name)["divergence"]["forgotten"]["ratio"] = ratio
    return metrics


def with_methods(*names: str) -> dict[str, Any]:
    metrics = sample()
    request = metrics["requests"][0]
    request["methods"] = [each for each in request["methods"] if each["name"] in names]
    return metrics


def horizontal() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDS / "horizontal.json").read_text())
    return found


VERTICAL = {
    "reached": (sample, ComparisonResult.REACHED, "is not excluded"),
    "nearer": (lambda: with_ratio(2.5), ComparisonResult.NEARER, "keeps a trace"),
    "no nearer": (lambda: with_ratio(4.0), ComparisonResult.NO_NEARER, "still holds what it"),
    "worse": (lambda: with_ratio(9.0), ComparisonResult.NO_NEARER, "still holds what it"),
    "uninformative": (
        lambda: with_ratio(1.2, "original"),
        ComparisonResult.UNINFORMATIVE,
        "no evidence for the person in either direction",
    ),
    "two Retrains": (
        lambda: with_methods("original", "fedora", "retrain", "retrain-2"),
        ComparisonResult.UNDECIDED,
        "needs more Retrains",
    ),
}


@pytest.mark.parametrize("case", VERTICAL)
def test_the_main_figure_decides_in_the_vertical_mode(case: str) -> None:
    make, result, meaning = VERTICAL[case]
    found = verdict(make())
    assert found.result is result
    assert meaning in found.meaning


def test_without_retrains_nothing_is_said_to_be_forgotten() -> None:
    metrics = with_methods("original", "fedora")
    for each in metrics["requests"][0]["methods"]:
        each["divergence"] = None
    found = verdict(metrics)
    assert found.headline.startswith("Not compared")
    assert "does not tell the person how much" in found.meaning


def test_a_figure_outside_its_interval_qualifies_a_good_result() -> None:
    metrics = sample()
    method(metrics, "fedora")["accuracy"]["forgotten"] = 0.7
    found = verdict(metrics)
    assert found.result is ComparisonResult.REACHED
    assert found.headline.endswith("but 1 other figure differs")
    assert "must assume that a trace is left" in found.meaning
    assert "outside the interval" in found.evidence[1]


def test_a_figure_outside_its_interval_qualifies_a_ratio_that_shows_nothing() -> None:
    metrics = with_ratio(1.2, "original")
    method(metrics, "fedora")["accuracy"]["forgotten"] = 0.7
    found = verdict(metrics)
    assert found.result is ComparisonResult.UNINFORMATIVE
    assert found.headline.startswith("By the main figure nothing shown, but")
    assert "must assume that a trace is left" in found.meaning


def test_an_exact_method_needs_no_comparison() -> None:
    metrics = with_methods("original", "fedora")
    method(metrics, "fedora")["guarantee"] = "exact"
    found = verdict(metrics)
    assert found.result is ComparisonResult.GUARANTEED
    assert found.headline.startswith("Exact: ")


def test_evidence_has_the_interval_of_a_further_retrain() -> None:
    first = verdict(sample()).evidence[0]
    assert "1.3\u202f×, before the request 4.1\u202f×; inside the interval" in first
    assert "(at most 1.7\u202f×)" in first
    for each in forgetting_figures(request_of(sample())):
        low, high = each.reference.mean - each.margin, each.reference.mean + each.margin
        assert each.within == (
            each.after <= high and (each.after >= low or "JS" in each.column.group)
        )
        assert not low <= each.before <= high


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([0.53, 0.69], [0.44, 0.61], "is not distinguishable from guessing"),
        ([0.53, 0.69], [0.55, 0.7], "stand out from unseen rows"),
        ([0.53, 0.69], [0.3, 0.45], "stand out from unseen rows"),
        ([0.45, 0.6], [0.44, 0.61], "no better than guessing before the request either"),
        ([0.53, 0.69], None, "Without an interval it cannot be told from guessing"),
    ],
)
def test_the_attack_is_judged_by_its_interval(
    before: list[float], after: list[float] | None, words: str
) -> None:
    metrics = sample()
    method(metrics, "original")["membership"]["interval"] = before
    method(metrics, "fedora")["membership"]["interval"] = after
    assert words in verdict(metrics).evidence[-1]


def test_an_interval_of_equal_ends_is_not_judged() -> None:
    metrics = sample()
    method(metrics, "fedora")["membership"] |= {"auc": 1.0, "interval": [1.0, 1.0]}
    attack = verdict(metrics).evidence[-1]
    assert "95 % interval" not in attack
    assert "it cannot be told from guessing" in attack


def test_an_attack_on_few_rows_is_not_judged() -> None:
    metrics = sample()
    method(metrics, "fedora")["membership"]["interval"] = [0.8, 1.0]
    figure(metrics, "mia_auc")["status"] = "insufficient_n"
    attack = verdict(metrics).evidence[-1]
    assert attack.endswith("With so few rows it shows nothing.")


def test_a_diverged_method_forgot_nothing() -> None:
    metrics = sample()
    method(metrics, "fedora")["diverged"] = "the loss is not finite in iteration 3"
    found = verdict(metrics)
    assert found.result is None
    assert found.headline == "Not carried out: FedORA gave no valid model"
    assert found.meaning == "The model did not forget these rows by this request."


def test_a_request_without_a_method_gives_its_reason() -> None:
    metrics = with_methods("original")
    metrics["requests"][0]["skipped"] = "the party left withdrew"
    assert verdict(metrics).evidence == ("the party left withdrew.",)


def test_a_request_that_names_no_training_row_says_so() -> None:
    metrics = sample()
    metrics["requests"][0]["rows"]["forgotten"] = 0
    assert verdict(metrics).headline.startswith("Nothing to forget")


def test_a_correction_is_about_wrong_labels_alone() -> None:
    metrics = sample()
    metrics["requests"][0]["rows"]["corrects"] = True
    assert "the wrong labels only" in verdict(metrics).meaning


def test_an_exact_correction_never_learned_the_wrong_labels() -> None:
    metrics = sample()
    metrics["requests"][0]["rows"]["corrects"] = True
    method(metrics, "fedora")["guarantee"] = "exact"
    headline = verdict(metrics).headline
    assert headline == "Exact: the delivered model never learned the wrong labels"


def test_attacks_on_membership_do_not_judge_a_correction() -> None:
    metrics = sample()
    method(metrics, "fedora")["membership"] |= {"auc": 0.9, "balanced_accuracy": 0.9}
    request = metrics["requests"][0]
    assert "1 other figure differs" in verdict(metrics).headline
    request["rows"]["corrects"] = True
    found = verdict(metrics)
    assert "other figure" not in found.headline
    assert not any("attack" in each for each in found.evidence)
    assert proof_text(request_of(metrics), ATTACK_AUC) == "no: the rows stay in the training"
    assert proof_text(request_of(metrics), FORGOTTEN_ACCURACY).startswith("yes")


def test_guarantees_are_told_apart() -> None:
    metrics = sample()
    method(metrics, "fedora")["details"] = {"sharding": {}}
    assert verdict(metrics).headline.startswith("Exact")
    method(metrics, "fedora")["details"] = {"certificate": CERTIFICATE}
    assert "bounded, not zero" in verdict(metrics).headline
    assert "convex loss" in verdict(metrics).meaning
    method(metrics, "fedora")["details"] = {"certificate": CERTIFICATE | {"epsilon": 1.5}}
    assert "(ε, δ) = (1.5, 1e-05)" in verdict(metrics).meaning


def test_the_worst_figure_decides_in_the_federated_modes() -> None:
    metrics = horizontal()
    request = request_of(metrics)
    figures = forgetting_figures(request)
    assert figures, "the record must have a figure that can show forgetting"
    outside = [each for each in figures if not each.within]
    expected = ComparisonResult.REACHED
    if outside:
        nearer = all(each.nearer for each in outside)
        expected = ComparisonResult.NEARER if nearer else ComparisonResult.NO_NEARER
    assert verdict(metrics).result is expected


@pytest.mark.parametrize(
    ("retrains", "result"), [(0, ComparisonResult.UNKNOWN), (1, ComparisonResult.UNDECIDED)]
)
def test_too_few_retrains_decide_nothing_in_the_federated_modes(
    retrains: int, result: ComparisonResult
) -> None:
    metrics = horizontal()
    request = metrics["requests"][0]
    references = ["retrain"][:retrains]
    request["methods"] = [
        each
        for each in request["methods"]
        if not each["name"].startswith("retrain") or each["name"] in references
    ]
    assert verdict(metrics).result is result


def test_clients_without_such_rows_have_nothing_to_forget() -> None:
    metrics = horizontal()
    metrics["requests"][0]["members"]["leaving"] = []
    assert verdict(metrics).headline.startswith("Nothing to forget")


def with_trigger(before: float, after: float, retrain: float, rows: int = 1000) -> dict[str, Any]:
    """The horizontal record with these trigger rates on ``rows`` rows; all Retrains have one."""
    metrics = horizontal()
    request = metrics["requests"][0]
    for each in request["methods"]:
        value = retrain if "retrain" in each["name"] else before
        for found in each["figures"]:
            if found["name"] in ("planted", "stamped"):
                found |= {"value": after if each["name"] == request["chosen"] else value, "n": rows}
    return metrics


@pytest.mark.parametrize(("after", "within"), [(0.0, True), (0.001, True), (0.02, False)])
def test_one_row_of_a_share_that_all_retrains_have_equal_decides_nothing(
    after: float, within: bool
) -> None:
    figures = forgetting_figures(request_of(with_trigger(0.9, after, 0.0)))
    (found,) = [each for each in figures if each.column.source[1] == "planted"]
    assert found.within is within


def test_few_rows_and_two_equal_retrains_still_show_a_clear_trace() -> None:
    """What few rows leave open is known: it is not multiplied by Student's t of two models."""
    metrics = with_trigger(1.0, 1.0, 0.0, rows=10)
    request = metrics["requests"][0]
    request["methods"] = [each for each in request["methods"] if each["name"] != "retrain-3"]
    assert verdict(metrics).result is ComparisonResult.NO_NEARER


def test_a_mean_over_rows_counts_none() -> None:
    """Probabilities are no rows that are right or wrong: three equal ones leave nothing open."""
    metrics = with_trigger(0.9, 0.0, 0.0)
    retrains = iter((0.100, 0.101, 0.102))
    for each in metrics["requests"][0]["methods"]:
        found = next(figure for figure in each["figures"] if figure["name"] == "stamped")
        found |= {"name": "text_probability", "n": 40}
        found["value"] = next(retrains) if "retrain" in each["name"] else 0.16
    figures = forgetting_figures(request_of(metrics))
    (found,) = [each for each in figures if each.column.source[1] == "text_probability"]
    assert not found.within
    assert found.margin < 0.01


def test_equal_retrains_and_too_few_for_a_distance_decide_nothing() -> None:
    for count, distances in ((3, (0.2, 0.2, 0.2)), (2, (0.2, 0.3))):
        metrics = horizontal()
        request = metrics["requests"][0]
        names = ["original", request["chosen"], *("retrain", "retrain-2", "retrain-3")[:count]]
        request["methods"] = [each for each in request["methods"] if each["name"] in names]
        values = iter(distances)
        for each in request["methods"]:
            each["figures"] = [
                figure for figure in each["figures"] if figure["name"] == "odds_to_retrain"
            ]
            each["figures"][0]["value"] = next(values) if "retrain" in each["name"] else 0.9
        found = request_of(metrics)
        assert request_verdict(found).result is ComparisonResult.UNDECIDED
        (column,) = proving_columns(found)
        assert proof_text(found, column).startswith("unknown: ")


def test_a_model_that_one_row_tells_from_the_retrains_cannot_show_forgetting() -> None:
    figures = forgetting_figures(request_of(with_trigger(0.001, 0.0, 0.0)))
    assert "planted" not in [each.column.source[1] for each in figures]


def test_a_distance_from_the_retrains_has_no_lower_limit_and_needs_three_of_them() -> None:
    """A Retrain is measured against the others, so a further one varies more than they do."""
    metrics = horizontal()
    request = metrics["requests"][0]
    retrains = iter((0.12, 0.14, 0.16))
    for each in request["methods"]:
        (found,) = [figure for figure in each["figures"] if figure["name"] == "odds_to_retrain"]
        if "retrain" in each["name"]:
            found["value"] = next(retrains)
        else:
            found["value"] = 0.01 if each["name"] == request["chosen"] else 0.9
    figures = forgetting_figures(request_of(metrics))
    (found,) = [each for each in figures if each.column.source[1] == "odds_to_retrain"]
    assert found.within
    assert found.reference.spread == pytest.approx(0.04)  # twice that of three values
    assert "inside the interval in which a further Retrain lies (at most 0.34)" in found.sentence


def test_with_several_figures_chance_is_named() -> None:
    text = " ".join(verdict(with_trigger(0.9, 0.5, 0.0)).evidence)
    assert "figures were compared. Of models that never had the rows" in text
