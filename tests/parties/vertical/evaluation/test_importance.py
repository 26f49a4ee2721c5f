"""Permutation importance of the parties, and of the active party's columns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from other_labels import LABELS, NUMBER, write_diabetes, write_multilabel
from three_parties import PARTIES, agreement, open_split_model
from whole_run import run

from configs.config_file import validate_table
from parties.common.shared_randomness import torch_seed
from parties.report.pages.scientist import report_page
from parties.report.record import Importance, ImportanceLine
from parties.vertical.engine.local_model import PartyNetwork
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.trained.importance import permutation_importance
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.methods.train_model import train_model
from parties.vertical.passive import PassiveSession
from protocol import vfl_pb2
from unlearning.audit.classifier import roc_auc
from unlearning.audit.membership import Outputs

TRAINED = {"learning_rate": 0.02, "batch": 16, "epochs": 8}
COUNT = 3
Trained = tuple[SplitModel, dict[str, PassiveSession], Importance]


def write_unequal(folder: Path, rows: int) -> None:
    """Write three tables: left knows the label, the hub a little in y, and right has noise."""
    generator = np.random.default_rng(11)
    label = generator.integers(0, 3, rows)
    for name, known in (("hub", [0, 0.6, 0]), ("left", [1.5, 1.5, 1.5]), ("right", [0, 0, 0])):
        values = generator.normal(size=(rows, 3)) + label[:, None] * np.array(known)
        lines = ["id,x,y,z" + (",label" if name == "hub" else "")]
        for row in generator.permutation(rows):
            cells = [f"p{row}", *(f"{value:.6f}" for value in values[row])]
            lines.append(",".join([*cells, *(["abc"[label[row]]] if name == "hub" else [])]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    """A trained model, the passive parties, and its importances."""
    folder = tmp_path_factory.mktemp("importance")
    with open_split_model(folder, 400, write_unequal, training=TRAINED) as (model, sessions):
        train_model(model, vfl_pb2.TRAIN_ROWS, "original", "training")
        found = permutation_importance(model, model.read(vfl_pb2.TEST), COUNT)
        yield model, sessions, found


def line(found: Importance, party: str, column: str | None = None) -> ImportanceLine:
    """The line of a party, or of a column."""
    (chosen,) = (each for each in found.lines if (each.party, each.column) == (party, column))
    return chosen


def permuted_auc(
    model: SplitModel, network: PartyNetwork, columns: slice, words: tuple[str, str, int]
) -> float:
    """The AUC after a party permutes some of its columns over the test rows, by messages."""
    assert network.inputs is not None
    values, rows = network.inputs.values, model.rows.test
    generator = torch.Generator().manual_seed(torch_seed(5, "importance", *words))
    order = torch.randperm(len(rows), generator=generator)
    kept = values.clone()
    values[rows, columns] = kept[rows[order.numpy()], columns]
    area = roc_auc(Outputs(model.logits(vfl_pb2.TEST), model.labels[rows]))
    values.copy_(kept)
    assert area is not None
    return area


@pytest.mark.parametrize(
    ("name", "column", "place"),
    [
        *((name, None, slice(None)) for name in PARTIES),
        *(("hub", column, slice(at, at + 1)) for at, column in enumerate("xyz")),
    ],
)
def test_fall_is_that_of_a_party_which_permutes_its_columns(
    trained: Trained, name: str, column: str | None, place: slice
) -> None:
    model, sessions, found = trained
    local_model = model.local_model if name == "hub" else sessions[name].state.local_model
    whole = found.figures["auc"]
    falls = [
        whole - permuted_auc(model, local_model.model, place, (name, column or "", number))
        for number in range(COUNT)
    ]
    drop = line(found, name, column).drops["auc"]
    assert drop.mean == pytest.approx(np.mean(falls), abs=1e-9)
    assert drop.sd == pytest.approx(np.std(falls, ddof=1), abs=1e-9)
    assert max(map(abs, falls)) > 0


def test_informative_parties_and_columns_are_the_important_ones(trained: Trained) -> None:
    _, _, found = trained
    falls = {(each.party, each.column): each.drops["auc"].mean for each in found.lines}
    assert falls["left", None] > 0.2
    assert falls["left", None] > 4 * abs(falls["right", None])
    assert falls["hub", "y"] > max(falls["hub", "x"], falls["hub", "z"])
    columns = [each.column for each in found.lines if each.column]
    assert columns == ["x", "y", "z"]  # of the active party only


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"labels": NUMBER},
        {"labels": LABELS},
        {
            "preprocessing": "declared",
            "sharding": {"shards": 2},
            "unlearning": {"method": "sharded", "compare": (), "retrains": 2},
        },
    ],
    ids=["classes", "number", "labels", "shards"],
)
def test_record_and_page_have_the_importances(tmp_path: Path, changes: dict[str, Any]) -> None:
    kind = changes.get("labels", {}).get("task", "")
    write = {"regression": write_diabetes, "multilabel": write_multilabel}.get(kind)
    found = {}
    for count in (0, COUNT):
        place = tmp_path / str(count)
        place.mkdir()
        evaluation = {"importance": count}
        found[count] = run(place, before=write, training=TRAINED, evaluation=evaluation, **changes)
    model = found[COUNT]["model"]
    lines = model["importance"]["lines"]
    figure = {"regression": "r2", "multilabel": "auc_macro"}.get(kind, "auc")
    assert {each["party"] for each in lines if each["column"] is None} == set(PARTIES)
    assert model["importance"]["figures"][figure] == pytest.approx(model[figure])
    assert max(each["drops"][figure]["mean"] for each in lines) > 0.05
    assert {each["party"] for each in lines if each["column"]} == {"hub"}
    assert "What each party’s columns bring" in report_page(found[COUNT])
    assert found[0]["model"]["importance"] is None
    assert "What each party’s columns bring" not in report_page(found[0])
    sent = [
        {each["phase"]: each["messages"] for each in metrics["traffic"]}
        for metrics in found.values()
    ]
    assert sent[0] == sent[1]  # no message is sent for it
    assert found[0]["training"] == found[COUNT]["training"]


def test_party_without_columns_and_one_permutation(tmp_path: Path) -> None:
    parties = agreement()["parties"] | {"hub": {"role": "active"}}
    metrics = run(tmp_path, parties=parties, training=TRAINED, evaluation={"importance": 1})
    lines = metrics["model"]["importance"]["lines"]
    assert [(each["party"], each["column"]) for each in lines] == [("left", None), ("right", None)]
    assert all(each["drops"]["auc"]["sd"] is None for each in lines)
    assert "mean of 1 permutation." in report_page(json.loads(json.dumps(metrics)))


def test_agreement_without_the_key_keeps_its_canonical_form() -> None:
    plain = validate_table(AGREEMENT, agreement(), Path("plan.toml"), "")
    assert "importance" not in plain.canonical()["evaluation"]
