"""Tests of the extraction from metrics records: figures, rounds and payloads by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_runs import write_list

from configs.config_file import read_config
from configs.experiments import read_experiments
from parties.experiments.bench.benches import plan_vertical_runs
from parties.experiments.bench.extract import (
    count_rounds,
    expected_fedora_bytes,
    extract_vertical,
    payload_formula_applies,
)
from parties.experiments.bench.plan import PlannedRun, Scope
from parties.vertical.methods.registry import SCHEMA


def first_run(folder: Path) -> PlannedRun:
    return plan_vertical_runs(read_experiments(write_list(folder)), folder, Scope())[0]


def figure(name: str, value: float | None) -> dict[str, Any]:
    return {"name": name, "value": value}


def method(name: str, seconds: float) -> dict[str, Any]:
    cost = {"seconds": seconds, "size": 10, "payload": 8}
    divergence = {"forgotten": {"ratio": 1.5}}
    return {"name": name, "cost": cost, "divergence": divergence, "details": {}, "steps": []}


def metrics() -> dict[str, Any]:
    names = {"original": 0.9, "fedora": 0.8, "retrain": 0.6, "retrain-2": 0.7, "retrain-paired": 1}
    methods = {name: method(name, 6.0) for name in names}
    for name, value in names.items():
        methods[name]["figures"] = [
            figure("test_accuracy", value),
            figure("mia_balanced_accuracy", None),
            figure("backdoor_success", value / 2),
        ]
    methods["fedora"]["steps"] = [{"validation_accuracy": None}, {"validation_accuracy": 0.5}]
    request = {"rows": {"forgotten": 25, "retained": 75}, "methods": [*methods.values()]}
    return {"requests": [request], "run": {"rows": {"validation": 10}}}


def test_clean_run_has_all_figures_but_the_backdoor(tmp_path: Path) -> None:
    figures = extract_vertical(first_run(tmp_path), metrics())
    assert figures["fedora"]["test"] == 0.8
    assert figures["fedora"]["round"] == 3.0, "6 seconds, 2 iterations"
    assert figures["fedora"]["js"] == 1.5
    assert "mia" not in figures["fedora"], "a metric without value has no figure"
    assert "backdoor" not in figures["fedora"]
    assert "seconds" not in figures["original"]


def test_a_method_that_was_rolled_back_is_marked(tmp_path: Path) -> None:
    """Its figures are those of the model from before."""
    record = metrics()
    method = next(each for each in record["requests"][0]["methods"] if each["name"] == "fedora")
    method["diverged"] = "utility lost"
    run = first_run(tmp_path)
    assert extract_vertical(run, record)["fedora"]["restored"] == 1
    planted = extract_vertical(replace(run, poisoned=True), record)
    assert planted["fedora"] == {"backdoor": 0.4, "restored-backdoor": 1}
    assert "restored" not in planted["retrain"]


def test_retrain_is_the_mean_of_independent_retrains(tmp_path: Path) -> None:
    figures = extract_vertical(first_run(tmp_path), metrics())
    assert figures["retrain"]["test"] == pytest.approx(0.65)
    assert "retrain-2" not in figures
    assert figures["retrain-paired"]["test"] == 1


def test_poisoned_run_has_only_the_backdoor_figure(tmp_path: Path) -> None:
    figures = extract_vertical(replace(first_run(tmp_path), poisoned=True), metrics())
    assert figures["fedora"] == {"backdoor": 0.4}
    assert figures["retrain"] == {"backdoor": pytest.approx(0.325)}


@pytest.mark.parametrize(
    ("name", "facts", "count"),
    [
        ("retrain", {"epochs": [1] * 4}, 7),  # it stopped early
        ("retrain-local", {"epochs": [1] * 4}, 4),
        ("fedora", {}, 2),
        ("gradient-ascent", {"losses": [1, 2, 3]}, 3),
        ("ico-like", {}, 5.0),  # 10 steps; a quarter of 75 rows are 2 batches of 16
        ("cvfu", {"losses": [1]}, 1),
        ("top-only", {"epochs": [1] * 20}, 20),
        ("original", {}, None),
    ],
)
def test_rounds(tmp_path: Path, name: str, facts: dict[str, Any], count: float | None) -> None:
    run = first_run(tmp_path)
    changes = ["training.epochs=7", "unlearning.ico_like.steps=10"]
    agreement = read_config(run.config, SCHEMA, changes).agreement
    request = metrics()["requests"][0]
    assert count_rounds(name, agreement, request, {"details": facts}) == count


def test_rounds_of_a_retrain_with_a_local_start_are_its_own(tmp_path: Path) -> None:
    changes = ["training.epochs=7", 'training.start="local"']
    agreement = read_config(first_run(tmp_path).config, SCHEMA, changes).agreement
    record = {"details": {"epochs": [1] * 3}}
    assert count_rounds("retrain", agreement, metrics()["requests"][0], record) == 3


def test_payload_of_fedora_by_hand(tmp_path: Path) -> None:
    """Two iterations with 25 rows of D_u and 3 sub-steps of 16 rows each; an epoch has 75 rows.

    Sub-steps 1 to 6 see 16, 16, 16, 16, 11, 16 rows: 91. Rows both ways: 2 · (2 · 25 + 91) = 282.
    Two evaluations of 10 validation rows, one way: 20. Each row is 4 numbers of 4 bytes.
    """
    fedora = '{start="original", policy="uniform", calibrate=false, batch=16, retain_share=0.5}'
    run = first_run(tmp_path)
    agreement = read_config(run.config, SCHEMA, [f"unlearning.fedora={fedora}"]).agreement
    assert payload_formula_applies(agreement)
    assert expected_fedora_bytes(agreement, metrics()["requests"][0], 10) == (282 + 20) * 16


def test_payload_formula_does_not_cover_other_forms(tmp_path: Path) -> None:
    assert not payload_formula_applies(first_run(tmp_path).agreement)
