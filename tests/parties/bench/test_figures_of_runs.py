"""Tests of the extraction from metrics records: figures, rounds and payloads by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench.bench_runs import write_list

from configs.experiments import read_experiments
from configs.schema import read_config
from parties.experiments.bench.extract import (
    count_rounds,
    expected_fedora_bytes,
    extract_vertical,
    payload_formula_applies,
)
from parties.experiments.bench.plan import PlannedRun, Scope, plan_vertical_runs


def run_of(folder: Path) -> PlannedRun:
    return plan_vertical_runs(read_experiments(write_list(folder)), folder, Scope())[0]


def figure(name: str, value: float | None) -> dict[str, Any]:
    return {"name": name, "value": value}


def method(name: str, seconds: float) -> dict[str, Any]:
    cost = {"seconds": seconds, "bytes": 10, "payload": 8}
    divergence = {"forgotten": {"ratio": 1.5}}
    return {"name": name, "cost": cost, "divergence": divergence, "facts": {}}


def metrics() -> dict[str, Any]:
    names = {"original": 0.9, "fedora": 0.8, "retrain": 0.6, "retrain-2": 0.7, "retrain-paired": 1}
    figures = {
        name: [
            figure("test_accuracy", value),
            figure("mia_balanced_accuracy", None),
            figure("backdoor_success", value / 2),
        ]
        for name, value in names.items()
    }
    request = {
        "forgotten": 25,
        "retained": 75,
        "iterations": [{"validation_accuracy": None}, {"validation_accuracy": 0.5}],
        "methods": [method(name, 6.0) for name in names],
        "figures": figures,
    }
    return {"requests": [request], "run": {"rows": {"validation": 10}}}


def test_a_clean_run_tells_everything_but_the_backdoor(tmp_path: Path) -> None:
    found = extract_vertical(run_of(tmp_path), metrics())
    assert found["fedora"]["test"] == 0.8
    assert found["fedora"]["round"] == 3.0, "6 seconds, 2 iterations"
    assert found["fedora"]["js"] == 1.5
    assert "mia" not in found["fedora"], "no value, no figure"
    assert "backdoor" not in found["fedora"]
    assert "seconds" not in found["original"]


def test_retrain_is_the_mean_of_the_independent_ones(tmp_path: Path) -> None:
    found = extract_vertical(run_of(tmp_path), metrics())
    assert found["retrain"]["test"] == pytest.approx(0.65)
    assert "retrain-2" not in found
    assert found["retrain-paired"]["test"] == 1


def test_a_poisoned_run_tells_of_the_backdoor_alone(tmp_path: Path) -> None:
    found = extract_vertical(replace(run_of(tmp_path), poisoned=True), metrics())
    assert found["fedora"] == {"backdoor": 0.4}
    assert found["retrain"] == {"backdoor": pytest.approx(0.325)}


@pytest.mark.parametrize(
    ("name", "facts", "count"),
    [
        ("retrain", {}, 7),
        ("fedora", {}, 2),
        ("gradient-ascent", {"losses": [1, 2, 3]}, 3),
        ("ico-like", {}, 5.0),  # 10 steps; a quarter of 75 rows are 2 batches of 16
        ("cvfu", {"losses": [1]}, 1),
        ("top-only", {}, 20),
        ("original", {}, None),
    ],
)
def test_rounds(tmp_path: Path, name: str, facts: dict[str, Any], count: float | None) -> None:
    run = run_of(tmp_path)
    changes = ["training.epochs=7", "unlearning.ico_like.steps=10"]
    agreement = read_config(run.config, changes).agreement
    request = metrics()["requests"][0]
    assert count_rounds(name, agreement, request, {"facts": facts}) == count


def test_payload_of_fedora_by_hand(tmp_path: Path) -> None:
    """Two iterations with 25 rows of D_u and 3 sub-steps of 16 rows each; an epoch has 75 rows.

    Sub-steps 1 to 6 see 16, 16, 16, 16, 11, 16 rows: 91. Rows both ways: 2 · (2 · 25 + 91) = 282.
    Two looks at 10 validation rows, one way: 20. Each row is 4 numbers of 4 bytes.
    """
    fedora = '{start="original", policy="uniform", calibrate=false, batch=16, retain_share=0.5}'
    run = run_of(tmp_path)
    agreement = read_config(run.config, [f"unlearning.fedora={fedora}"]).agreement
    assert payload_formula_applies(agreement)
    assert expected_fedora_bytes(agreement, metrics()["requests"][0], 10) == (282 + 20) * 16


def test_payload_formula_does_not_cover_other_forms(tmp_path: Path) -> None:
    assert not payload_formula_applies(run_of(tmp_path).agreement)
