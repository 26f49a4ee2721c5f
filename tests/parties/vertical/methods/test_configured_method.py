"""The model of the configured method is delivered, and its row in the report has its guarantee."""

import json
from pathlib import Path
from typing import get_args

import pytest
from whole_run import QUICK, TRAINING, run

from parties.common.json_files import canonical_json
from parties.horizontal.registry import METHODS as CLIENT_METHODS
from parties.language.registry import METHODS as TEXT_METHODS
from parties.report.pages.scientist import report_page
from parties.vertical.methods.registry import (
    AGREEMENT,
    BASELINES,
    METHODS,
    independent_retrains,
    vertical_method,
)
from unlearning.guarantee import STRONGEST, Guarantee

FORGET = ({"name": "request", "classes": ["a"], "fraction": 0.5},)
NAMES = (
    "fedora",
    "newton-cg",
    "sharded",
    "retrain-paired",
    *(each.name for each in BASELINES),
)


def test_every_configured_name_is_a_method_name() -> None:
    assert [vertical_method(name).name for name in NAMES] == list(NAMES)
    unlearning = type(AGREEMENT.model_fields["unlearning"].default)
    assert get_args(unlearning.model_fields["method"].annotation) == NAMES
    assert set(METHODS) == set(NAMES)


def test_only_retrains_are_marked_exact() -> None:
    exact = {name for name in NAMES if vertical_method(name).guarantee is Guarantee.EXACT}
    assert exact == {"retrain-paired", "retrain-local", "short-retrain", "sharded"}
    assert [each.name for each in independent_retrains(2)] == ["retrain", "retrain-2"]


def test_the_strongest_guarantee_of_every_method_that_is_not_exact_is_known() -> None:
    every = [*METHODS.items(), *CLIENT_METHODS.items(), *TEXT_METHODS.items()]
    found = {name: each.guarantee for name, each in every if each.guarantee != Guarantee.EXACT}
    assert found.keys() == STRONGEST.keys()
    stronger = {name for name, kind in found.items() if STRONGEST[name] is not kind}
    assert stronger == {"newton-cg", "fedora"}  # with noise; with small residuals
    assert all(STRONGEST[name].rank < found[name].rank for name in stronger)


@pytest.mark.parametrize("name", ["gradient-ascent", "fine-tune", "retrain-paired"])
def test_the_chosen_method_is_delivered(tmp_path: Path, name: str) -> None:
    plan = QUICK | {"method": name, "compare": ("fine-tune", "relabel")}
    metrics = run(tmp_path, unlearn=FORGET, training=TRAINING, unlearning=plan)
    request = metrics["requests"][0]
    rows = {each["name"]: each for each in request["methods"]}
    assert request["chosen"] == name
    assert list(rows)[:2] == ["original", name]
    assert {"retrain", "retrain-2", "retrain-paired"} <= set(rows)
    assert len(rows) == len(request["methods"])  # no method runs twice
    assert (
        metrics["run"]["guarantee"]
        == rows[name]["guarantee"]
        == vertical_method(name).guarantee.value
    )
    assert rows["original"]["guarantee"] is None
    assert METHODS[name].label.title in report_page(json.loads(canonical_json(metrics)))
    assert f"copy '{name}' of the model" in request["purged"]["left"]
