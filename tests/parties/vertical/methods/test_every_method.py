"""Every method in a whole run: a row in the report, and the same result after a crash."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_resume import RunResult, prepare, run_parties, without_costs
from three_parties import agreement
from whole_run import FEDORA, QUICK, TRAINING, run

from parties.common.json_files import canonical_json
from parties.report.pages.scientist import report_page

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
LESS = {
    "fedora": FEDORA,
    "top_only": {"epochs": 2},
    "shrink_perturb": {"epochs": 1},
    "ico_like": {"steps": 4},
    "cvfu": {"epochs": 2},
}
ALL = ("fine-tune", "gradient-ascent", "relabel", "top-only", "shrink-perturb", "ico-like")


def votes() -> dict[str, Any]:
    """Three parties with a sum of votes."""
    parties = agreement()["parties"]
    return {
        "parties": {name: each | {"width": 3} for name, each in parties.items()},
        "top": {"kind": "sum"},
    }


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The metrics of a run with a sum of votes, in which every method can run."""
    plan = QUICK | LESS | {"compare": (*ALL, "cvfu")}
    folder = tmp_path_factory.mktemp("all")
    result = run(folder, unlearn=FORGET, training=TRAINING, unlearning=plan, **votes())
    return json.loads(canonical_json(result))


def test_every_method_has_a_row(metrics: Any) -> None:
    rows = metrics["requests"][0]["methods"]
    names = [row["name"] for row in rows]
    assert names == [
        "original", "fedora", *ALL, "cvfu", "retrain", "retrain-2", "retrain-paired",
    ]  # fmt: skip
    for row in rows[1:]:
        exact = row["name"].startswith("retrain")
        assert row["guarantee"] == ("exact" if exact else "heuristic")
        assert row["cost"]["rows"] > 0
    text = report_page(metrics)
    assert all(each["title"] in text for each in rows)


def test_forward_passes_are_counted_as_rows(metrics: Any) -> None:
    rows = {row["name"]: row for row in metrics["requests"][0]["methods"]}
    retained = metrics["requests"][0]["rows"]["retained"]
    assert rows["top-only"]["cost"]["rows"] == 2 * retained  # two passive parties


def test_every_row_has_the_facts_of_its_method(metrics: Any) -> None:
    facts = {row["name"]: row["details"] for row in metrics["requests"][0]["methods"]}
    for name in ("fine-tune", "relabel", "top-only", "shrink-perturb", "retrain"):
        assert facts[name]["epochs"], name
    for name in ("gradient-ascent", "ico-like", "cvfu"):
        assert facts[name]["losses"], name
    assert facts["ico-like"]["contribution"] > 0
    assert set(facts["fedora"].pop("kkt")) > {"stationarity", "primal", "dual", "complementarity"}
    assert facts["fedora"] == {
        "dual": "scalar",
        "start": "rewind",
        "score": True,
        "primal": "optimiser",
        "anneal": True,
        "adaptive": False,
        "extrapolate": False,
        "retain_share": 0.25,
        "calibration": None,  # a sum of votes has no top to calibrate
        "constraint": {"active": 0.0, "at_maximum": 0.0, "iterations": 2},
    }


CHANGES: dict[str, Any] = {
    "unlearn": FORGET,
    "training": TRAINING,
    "unlearning": QUICK
    | LESS
    | {
        "method": "top-only",
        "compare": ("fine-tune", "relabel", "shrink-perturb", "ico-like", "cvfu"),
    },
    **votes(),
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunResult:
    folder = tmp_path_factory.mktemp("undisturbed")
    prepare(folder)
    return run_parties(folder, **CHANGES)


@pytest.mark.parametrize("message", [80, 140, 200, 260, 320])
def test_crash_does_not_change_the_result(
    tmp_path: Path, uninterrupted: RunResult, message: int
) -> None:
    prepare(tmp_path)
    run_parties(tmp_path, ("left", message), **CHANGES)
    after_crash = run_parties(tmp_path, **CHANGES)
    assert any(note.startswith("resumed checkpoint") for note in after_crash.notes)
    assert after_crash.files == uninterrupted.files
    assert after_crash.metrics is not None
    assert uninterrupted.metrics is not None
    assert without_costs(after_crash.metrics["requests"]) == without_costs(
        uninterrupted.metrics["requests"]
    )
