"""Requests of a run without Retrains: the method alone, and a report that says so."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sharded_runs import PLAN as SHARDS
from test_newton_cg import HEAD
from whole_run import QUICK, run

from parties.common.json_files import canonical_json
from parties.report.pages.scientist import report_page
from parties.report.terminal import report_tables

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
ALONE = QUICK | {"compare": (), "retrains": 0}
LIMIT = (
    "Audit level “quick”: no Retrain was trained for comparison, so the figures cannot say how far "
    "the model is from a model that never had the forgotten rows."
)


def texts(metrics: dict[str, Any]) -> tuple[str, str]:
    """The page and the text of the report, without line breaks."""
    console = Console(width=100, file=StringIO(), record=True)
    console.print(report_tables(metrics))
    page = report_page(json.loads(canonical_json(metrics)))
    return " ".join(page.split()), " ".join(console.export_text().split())


def values(request: dict[str, Any], name: str) -> dict[str, Any]:
    """The figures of one model."""
    method = next(each for each in request["methods"] if each["name"] == name)
    return {each["name"]: each["value"] for each in method["figures"]}


def trainings(events: list[Any]) -> list[str]:
    """The phases of the active party from the training on that change a model."""
    found = list(dict.fromkeys(each["phase"] for each in events if "phase" in each))
    after = found[found.index("training") :]
    return [each for each in after if each != "audit" and not each.startswith("reading out")]


@pytest.mark.parametrize("name", ["fedora", "fine-tune", "retrain-paired", "retrain-local"])
def test_the_method_runs_alone(tmp_path: Path, name: str) -> None:
    events: list[Any] = []
    metrics = run(tmp_path, unlearn=FORGET, unlearning=ALONE | {"method": name}, events=events)
    request = metrics["requests"][0]
    assert [each["name"] for each in request["methods"]] == ["original", name]
    own = ["reference of fedora", name] if name == "fedora" else [name]
    assert trainings(events) == ["training", "own columns alone", *own]  # 0 Retrains
    assert request["audit_level"] == "quick"
    assert request["remains"] == {"hub": [], "left": [], "right": []}
    assert set(request["audits"]["completeness"]) == {"hub", "left", "right"}
    guarantee = request["methods"][1]["guarantee"]
    exact = guarantee == "exact"
    result = "Guaranteed by the method" if exact else "Not compared with a Retrain"
    for text in texts(metrics):
        assert LIMIT in text
        assert result in text
        assert f"Guarantee of the method: {guarantee}." in text


def test_the_figures_are_those_of_a_run_with_retrains(tmp_path: Path) -> None:
    plans = {"alone": ALONE, "full": QUICK | {"compare": ("fine-tune", "relabel")}}
    found, events = {}, {name: list[Any]() for name in plans}
    for name, plan in plans.items():
        (tmp_path / name).mkdir()
        metrics = run(tmp_path / name, unlearn=FORGET, unlearning=plan, events=events[name])
        found[name] = metrics["requests"][0]
        assert (LIMIT in texts(metrics)[0]) is (name == "alone")
    assert found["full"]["audit_level"] == "full"
    retrained = {name: sum("retrain" in each for each in trainings(events[name])) for name in plans}
    assert retrained == {"alone": 0, "full": 3}
    for model in ("original", "fedora"):
        alone, full = (values(found[name], model) for name in plans)
        assert alone == {name: full[name] for name in alone}
        assert {"test_accuracy", "mia_auc", "entropy_auc", "forgotten_loss"} <= set(alone)
        assert {"kl_forgotten", "streisand", "energy_p"} <= set(full) - set(alone)
    delivered = found["alone"]["methods"][1]
    assert {each["status"] for each in delivered["figures"] if each["value"] is not None} <= {
        "ok",
        "insufficient_n",
    }
    assert delivered["divergence"] is None
    assert delivered["cost"]["rows"] == found["full"]["methods"][1]["cost"]["rows"]
    assert delivered["cost"]["rows_of_retrain"] is None


@pytest.mark.parametrize(
    ("request_", "part", "words"),
    [
        ({"classes": ["a"], "fraction": 0.013}, "reconstruction", "fits"),
        ({"classes": ["a", "b"], "fraction": 0.5, "canaries": 8}, "canaries", "AUC of the audit"),
        (
            {
                "classes": ["a", "b"],
                "fraction": 0.4,
                "backdoor": {"party": "right", "target": "c", "columns": ["x", "z"]},
            },
            "backdoor",
            "the trigger succeeds",
        ),
    ],
)
def test_audits_of_single_and_planted_rows_hold(
    tmp_path: Path, request_: dict[str, Any], part: str, words: str
) -> None:
    metrics = run(tmp_path, unlearn=[{"name": "request"} | request_], unlearning=ALONE)
    assert metrics["requests"][0]["audits"][part]
    page, text = texts(metrics)
    assert words in page
    assert "With a Retrain" not in page
    assert "None" not in page + text


def test_the_certificate_stands_without_distances_to_a_retrain(tmp_path: Path) -> None:
    plan = {"method": "newton-cg", "compare": (), "retrains": 0, "fedora": {"start": "original"}}
    page, text = texts(run(tmp_path, unlearn=FORGET, **HEAD, unlearning=plan))
    assert "The certificate" in page
    assert "true distance" not in page
    assert "Guaranteed by the method, not by a measurement" in text


def test_shards_run_alone(tmp_path: Path) -> None:
    plan = SHARDS | {"unlearning": SHARDS["unlearning"] | {"retrains": 0}}
    metrics = run(tmp_path, unlearn=FORGET, **plan)
    assert [each["name"] for each in metrics["requests"][0]["methods"]] == ["original", "sharded"]
    page, text = texts(metrics)
    assert "The shards" in page
    assert LIMIT in text


def test_a_second_request_follows(tmp_path: Path) -> None:
    second = {"name": "second", "classes": ["b"], "fraction": 0.5}
    metrics = run(tmp_path, unlearn=(*FORGET, second), unlearning=ALONE)
    assert [each["audit_level"] for each in metrics["requests"]] == ["quick", "quick"]
    assert texts(metrics)[1].count(LIMIT) == 2
