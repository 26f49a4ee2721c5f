"""All metrics in whole runs: each beside Retrain, and the expensive ones if they are configured."""

import json
from pathlib import Path
from typing import Any

import pytest
from whole_run import run

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
KEYS = {
    *("name", "value", "ci95", "retrain_mean", "retrain_sd", "gap", "gap_in_sd"),
    *("n", "direction", "status", "note"),
}


def figures_by_model(record: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {each["name"]: each["figures"] for each in record["methods"]}


def figures(record: dict[str, Any], model: str) -> dict[str, Any]:
    return {each["name"]: each for each in figures_by_model(record)[model]}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run(tmp_path_factory.mktemp("plain"), unlearn=FORGET)["requests"][0]


def test_every_metric_has_a_retrain_column(plain: dict[str, Any]) -> None:
    for model, some in figures_by_model(plain).items():
        for figure in some:
            assert set(figure) == KEYS
            run_at_retrain = figure["retrain_mean"] is not None
            assert (figure["status"] == "not_run") is not (
                run_at_retrain and figure["value"] is not None
            ), (model, figure)


def test_every_model_has_the_output_metrics(plain: dict[str, Any]) -> None:
    models = [each["name"] for each in plain["methods"]]
    names = {frozenset(figures(plain, model)) for model in models if model != "fedora"}
    for needed in ("test_accuracy", "forgotten_loss", "mia_auc", "kl_forgotten", "energy_p"):
        assert all(needed in each for each in names)


def test_expensive_metrics_report_that_they_did_not_run(plain: dict[str, Any]) -> None:
    assert figures(plain, "fedora")["c2st_p"]["status"] == "not_run"
    assert "shadow_mia_auc" not in figures(plain, "fedora")
    assert plain["audits"]["relearn"] is None
    assert plain["audits"]["backdoor"] is None
    assert plain["audits"]["reconstruction"] is None  # of more than one row


def test_completeness_names_every_party(plain: dict[str, Any]) -> None:
    completeness = plain["audits"]["completeness"]
    assert set(completeness) == {"hub", "left", "right"}
    assert [each["name"] for each in completeness["left"]] == ["forgotten_accuracy", "mia_auc"]


def test_parameter_distance_is_compared_with_the_original(plain: dict[str, Any]) -> None:
    for distances in plain["audits"]["parameters"].values():
        assert distances["original"] > 0
        assert distances["ratio"] == pytest.approx(distances["unlearned"] / distances["original"])


def test_no_residue_after_the_purge(plain: dict[str, Any]) -> None:
    assert plain["remains"] == {"hub": [], "left": [], "right": []}


def test_label_attack_is_reported_per_party(plain: dict[str, Any]) -> None:
    attack = plain["audits"]["label_attack"]
    if attack is not None:
        assert set(attack["parties"]) == {"left", "right"}


def test_expensive_metrics_run_when_configured(tmp_path: Path) -> None:
    evaluation = {
        "shadows": 4,
        "classifier_permutations": 9,
        "relearn": {"max_steps": 5},
        "completeness": False,
        "permutations": 19,
    }
    result = run(tmp_path, unlearn=FORGET, evaluation=evaluation)["requests"][0]
    delivered = figures(result, "fedora")
    assert 0 <= delivered["shadow_mia_auc"]["value"] <= 1
    assert delivered["shadow_mia_auc"]["status"] == "insufficient_n"  # of a few rows
    assert 0 < delivered["c2st_p"]["value"] <= 1
    assert result["audits"]["completeness"] is None
    steps = result["audits"]["relearn"]["steps"]
    assert {len(each) for each in steps.values()} == {3}
    assert set(steps) == {"fedora", "retrain-paired"}
    json.dumps(result, allow_nan=False)


def test_a_backdoor_is_measured_on_triggered_rows_with_its_control(tmp_path: Path) -> None:
    plan = {"party": "right", "target": "c", "columns": ["x", "z"]}
    request = {"name": "poisoned", "classes": ["a", "b"], "fraction": 0.4, "backdoor": plan}
    training = {"learning_rate": 0.05, "batch": 16, "epochs": 5}
    result = run(tmp_path, unlearn=[request], training=training)["requests"][0]
    control = result["audits"]["backdoor"]
    original, retrain = (figures(result, name) for name in ("original", "retrain"))
    assert control["original_success"] == original["backdoor_success"]["value"]
    assert control["status"] == ("ok" if control["original_success"] > 0.8 else "invalid")
    excess = [each["backdoor_excess"]["value"] for each in (original, retrain)]
    assert excess[0] > excess[1] + 0.2  # Retrain never saw the trigger
    assert "rows that bore the trigger" in result["purged"]["right"]
    assert result["remains"]["right"] == []


def test_request_for_one_row_has_the_metrics_of_one_row(tmp_path: Path) -> None:
    request = {"name": "single", "classes": ["a"], "fraction": 0.013}
    result = run(tmp_path, unlearn=[request])["requests"][0]
    assert result["rows"]["forgotten"] == 1
    delivered = figures(result, "fedora")
    assert delivered["forgotten_loss"]["ci95"] is None
    assert delivered["update_auc_unseen"]["status"] == "not_run"
    for party in ("hub", "left", "right"):
        reconstruction = result["audits"]["reconstruction"][party]
        assert set(reconstruction) == {"unlearned", "retrain"}
        assert 0 <= reconstruction["unlearned"]["rank"] <= 1
