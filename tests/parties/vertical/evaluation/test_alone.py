"""The trained model's figures in a run, and what the active party reaches alone."""

import re
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from three_parties import PARTIES, agreement
from whole_run import run

from configs.config_file import agreement_digest, validate_table
from parties.vertical.methods.registry import AGREEMENT

TRAINED = {"learning_rate": 0.02, "batch": 16, "epochs": 8}


def folder(parent: Path, name: str) -> Path:
    found = parent / name
    found.mkdir()
    return found


def two_classes(place: Path) -> None:
    """Replace the class c by b in the labels of the active party."""
    path = place / "hub.csv"
    path.write_text(re.sub(r",c$", ",b", path.read_text(), flags=re.MULTILINE))


def test_joint_training_does_not_depend_on_the_own_model(tmp_path: Path) -> None:
    places = {alone: folder(tmp_path, str(alone)) for alone in (True, False)}
    found = {
        alone: run(place, training=TRAINED, evaluation={"alone": alone})
        for alone, place in places.items()
    }
    assert found[True]["training"] == found[False]["training"]
    assert found[False]["model"]["alone"] is None
    messages = [
        {each["phase"]: each["messages"] for each in metrics["traffic"]}
        for metrics in found.values()
    ]
    assert messages[0] == messages[1]
    for name in PARTIES:
        one, other = (
            load_file(place / "runs" / "trio" / name / "model.safetensors")
            for place in places.values()
        )
        assert one.keys() == other.keys()
        assert all(bool((one[key] == other[key]).all()) for key in one)


@pytest.mark.parametrize(
    "changes",
    [
        {"training": TRAINED | {"patience": 2}},
        {"training": TRAINED, "preprocessing": "declared", "sharding": {"shards": 2},
         "unlearning": {"method": "sharded", "compare": (), "retrains": 2}},
    ],
    ids=["early stopping", "shards"],
)  # fmt: skip
def test_more_columns_are_better_than_own_columns(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Every party's columns depend on the label; the active party's do so the least."""
    model = run(tmp_path, **changes)["model"]
    alone = model["alone"]
    assert (alone["party"], alone["columns"], alone["absent"]) == ("hub", True, None)
    assert 0.5 < alone["auc"] < model["auc"]
    assert alone["gain_auc"]["value"] == pytest.approx(model["auc"] - alone["auc"])
    low, high = alone["gain_auc"]["ci95"]
    assert low < alone["gain_auc"]["value"] < high


def test_two_classes_have_all_figures_and_a_threshold(tmp_path: Path) -> None:
    labels = {"classes": ["a", "b"]}
    model = run(tmp_path, before=two_classes, labels=labels, training=TRAINED)["model"]
    assert model["absent"] == {}
    assert model["gini"] == pytest.approx(2 * model["auc"] - 1)
    assert model["confusion"]["rule"] == "youden"
    assert 0 < model["confusion"]["threshold"] < 1
    assert sum(map(sum, model["confusion"]["counts"])) == model["rows"]
    assert model["majority_class"] == "b"


def test_party_without_columns_answers_with_the_majority_class(tmp_path: Path) -> None:
    parties = agreement()["parties"] | {"hub": {"role": "active"}}
    model = run(tmp_path, parties=parties, training=TRAINED)["model"]
    assert model["alone"]["columns"] is False
    assert model["alone"]["auc"] == 0.5
    assert model["alone"]["accuracy"] == model["majority_accuracy"]


def test_default_keeps_the_digest_of_the_agreement() -> None:
    plans = [
        validate_table(AGREEMENT, agreement(**changes), Path(), "")
        for changes in ({}, {"evaluation": {"alone": True}}, {"evaluation": {"alone": False}})
    ]
    digests = [agreement_digest(each) for each in plans]
    assert digests[0] == digests[1] != digests[2]
