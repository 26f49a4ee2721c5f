"""Requests that correct labels: the rows stay in the training, with their own labels."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_resume import CHANGES, assert_equal_metrics, prepare, run_parties
from three_parties import agreement, open_split_model, start_training

from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.common.errors import PolicyError
from parties.report.pages.scientist import report_page
from parties.vertical.engine.requests import (
    next_labels,
    relabel_planted_rows,
    select_request_rows,
)
from parties.vertical.engine.rows import RowSets
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import TrainingPlan, train_epochs
from parties.vertical.methods.counterfactual import find_targets
from parties.vertical.methods.fedora import VALIDATED
from parties.vertical.methods.network_run import NetworkRun
from parties.vertical.methods.registry import AGREEMENT
from protocol import vfl_pb2

CORRECTS = {"name": "wrong", "classes": ["a", "b", "c"], "fraction": 0.1, "corrects": True}
CONSTRAINED = CHANGES["unlearning"] | {"fedora": {"iterations": 2, "batch": 16}}
ALONE = {"unlearn": (CORRECTS,), "unlearning": CONSTRAINED}


def planted(split_model: SplitModel) -> tuple[np.ndarray[Any, Any], torch.Tensor]:
    """The rows of the agreed correction and all right labels; the labels of the rows are wrong."""
    right = split_model.labels.clone()
    (chosen,) = select_request_rows(
        split_model.party, split_model.state.features.rows, split_model.rows, split_model.labels
    )
    relabel_planted_rows([chosen], split_model.labels, ("a", "b", "c"))
    assert chosen.own_labels.tolist() == right[chosen.mislabelled].tolist()
    assert len(chosen.mislabelled) > 10
    return chosen.mislabelled, right


def test_corrected_rows_stay_in_every_set() -> None:
    train, none = np.arange(12), np.empty(0, np.int64)
    before = RowSets(7, train, train, np.array([12, 13]), np.array([14]), none)
    sets = before.forget(np.array([2, 5, 13]), corrects=True)
    assert sets.forgotten.tolist() == [2, 5]
    assert sets.retain.tolist() == train.tolist()
    assert sets.validation.tolist() == [12, 13]
    after = sets.without_forgotten()
    assert not after.corrects
    assert [each.tolist() for each in after.arrays().values()] == [
        each.tolist() for each in before.arrays().values()
    ]


def test_the_active_party_alone_replaces_the_labels(tmp_path: Path) -> None:
    with open_split_model(tmp_path, **ALONE) as (split_model, sessions):
        rows, right = planted(split_model)
        wrong = split_model.labels.clone()
        start_training(split_model, "original")
        split_model.correct(rows, next_labels(right[rows].numpy(), "abc"), right[rows].numpy())
        assert torch.equal(split_model.labels, right)
        assert torch.equal(split_model.learned_labels, wrong)
        for session in sessions.values():
            assert session.state.rows.forgotten.tolist() == rows.tolist()
            assert session.state.rows.retain.tolist() == session.state.rows.train.tolist()
        features = {name: each.state.features.rows.copy() for name, each in sessions.items()}
        split_model.send_to_passive(vfl_pb2.UNLEARN, vfl_pb2.Purge())
        split_model.state.purge()
        for name, session in sessions.items():
            assert not len(session.state.rows.forgotten)
            assert session.state.features.rows.tolist() == features[name].tolist()
            assert set(rows.tolist()) <= set(session.state.rows.train.tolist())
        split_model.end_correction()
        assert torch.equal(split_model.learned_labels, right)
        for state in (split_model.state, *(each.state for each in sessions.values())):
            assert not len(state.requested_rows)  # a second purge would delete them


def test_a_row_is_corrected_once(tmp_path: Path) -> None:
    again = CORRECTS | {"name": "again", "fraction": 0.9, "seed": 3}
    with (
        open_split_model(tmp_path, **ALONE | {"unlearn": (CORRECTS, again)}) as (split_model, _),
        pytest.raises(PolicyError, match="rows that an earlier request corrects"),
    ):
        planted(split_model)


def test_the_reference_expects_the_corrected_labels(tmp_path: Path) -> None:
    training = {"learning_rate": 0.01, "batch": 16, "epochs": 30}
    with open_split_model(tmp_path, training=training, **ALONE) as (split_model, _):
        rows, right = planted(split_model)
        start_training(split_model, "original")
        train_epochs(split_model, TrainingPlan("training", vfl_pb2.TRAIN_ROWS, 30, 16))
        split_model.keep_copy("original", vfl_pb2.TRAIN)
        split_model.correct(rows, next_labels(right[rows].numpy(), "abc"), right[rows].numpy())
        run = NetworkRun(split_model)
        validated = run.logits(vfl_pb2.VALIDATION, VALIDATED)
        (targets,) = find_targets(run, validated).log_targets
    wrong = (right[rows] + 1) % 3
    own = targets.gather(1, right[rows][:, None]).mean()
    assert own > targets.gather(1, wrong[:, None]).mean() + 1.0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("correction")
    prepare(folder)
    return run_parties(folder, **ALONE)


def test_a_report_says_that_labels_were_corrected(uninterrupted: Any) -> None:
    (request,) = uninterrupted.metrics["requests"]
    methods = {each["name"] for each in request["methods"]}
    assert {"fine-tune", "retrain-paired"} <= methods
    assert "relabel" not in methods  # it trains on other wrong labels
    assert request["rows"]["corrects"]
    assert request["rows"]["retained"] == uninterrupted.metrics["run"]["rows"]["learn"]
    page = report_page(json.loads(json.dumps(uninterrupted.metrics)))
    assert re.search(r"The request\s+replaced the labels", page)


@pytest.mark.parametrize("message", [150, 260, 330])
def test_a_resumed_correction_equals_an_uninterrupted_one(
    tmp_path: Path, uninterrupted: Any, message: int
) -> None:
    prepare(tmp_path)
    run_parties(tmp_path, ("hub", 2 * message), **ALONE)
    result = run_parties(tmp_path, **ALONE)
    assert any(note.startswith("resumed checkpoint") for note in result.notes)
    assert result.files == uninterrupted.files
    assert_equal_metrics(result.metrics, uninterrupted.metrics)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"unlearn": (CORRECTS | {"canaries": 3},)}, "plants wrong labels itself"),
        ({"unlearning": {"method": "gradient-ascent"}}, "cannot correct labels"),
        ({"unlearn": (CORRECTS, {"name": "other", "classes": ["a"]})}, "need separate runs"),
        ({"evaluation": {"shadows": 4}}, "rows whose labels are corrected stay"),
        ({"unlearning": {"method": "scrub"}}, "cannot correct labels"),
        ({"unlearning": {"fedora": {"policy": "present"}}}, "policy = 'present' cannot correct"),
    ],
)
def test_an_impossible_correction_is_refused_by_name(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        validate_table(AGREEMENT, agreement(**{"unlearn": (CORRECTS,), **changes}), tmp_path, "")
