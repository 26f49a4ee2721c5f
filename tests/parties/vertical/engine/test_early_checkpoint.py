"""The early checkpoint from which FedORA starts: present at each request, or reported as absent."""

from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from test_requests import common_ids, training_ids
from three_parties import open_split_model
from whole_run import TRAINING, run

from parties.common.errors import NoCopy
from parties.vertical.engine.local_model import EARLY_CHECKPOINT
from protocol import vfl_pb2
from protocol.errors import Aborted

ONE, TWO = (
    {"name": name, "classes": [label], "fraction": 0.2}
    for name, label in (("one", "a"), ("two", "b"))
)


PRESENT = {"policy": "present"}  # starts from the early checkpoint


def starts(metrics: dict[str, Any]) -> list[Any]:
    """The slot or model from which FedORA started, for each request."""
    return [each["methods"][1]["details"]["start"] for each in metrics["requests"]]


def test_training_shorter_than_the_early_epoch_keeps_an_early_checkpoint(tmp_path: Path) -> None:
    short_training = TRAINING | {"epochs": 40, "patience": 1, "learning_rate": 0.5}
    metrics = run(
        tmp_path, unlearn=[ONE], training=short_training, fedora=PRESENT | {"rewind": 1.0}
    )
    assert len(metrics["training"]["steps"]) < 40
    assert starts(metrics) == ["rewind"]


def test_request_shorter_than_the_early_iteration_keeps_an_early_checkpoint(tmp_path: Path) -> None:
    soon = {"iterations": 3, "check_every": 1, "rewind": 1.0, "tolerance": 1e9}
    metrics = run(tmp_path, unlearn=[ONE, TWO], fedora=PRESENT | soon)
    assert metrics["requests"][0]["methods"][1]["stopped"] == "converged"
    assert starts(metrics) == ["rewind", "rewind"]


def test_request_without_training_rows_keeps_the_early_checkpoint(tmp_path: Path) -> None:
    learned = set(training_ids(tmp_path, 10_000).split())
    outside = [name for name in common_ids(tmp_path) if name not in learned][:5]
    unlearn, ids = [{"name": "none"}, TWO], {"none": "\n".join(outside)}
    metrics = run(tmp_path, unlearn=unlearn, ids=ids, fedora=PRESENT)
    first, second = metrics["requests"]
    assert first["rows"]["forgotten"] == 0
    assert not any(first["remains"].values())
    assert second["rows"]["forgotten"] > 0


@pytest.mark.parametrize("name", ["left", "right"])
def test_passive_party_without_early_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    with open_split_model(tmp_path) as (split_model, sessions):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        split_model.keep_copy(EARLY_CHECKPOINT, vfl_pb2.TRAIN)
        del sessions[name].state.local_model._slots[EARLY_CHECKPOINT]
        began = monotonic()
        with pytest.raises(Aborted, match=f"{name}: .*the copy 'early checkpoint'.*--begin fresh"):
            split_model.restore_copy(EARLY_CHECKPOINT, "original", vfl_pb2.UNLEARN)
        assert monotonic() - began < split_model.time_limit / 2


def test_active_party_without_early_checkpoint_reports_it(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (split_model, _):
        split_model.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        split_model.keep_copy(EARLY_CHECKPOINT, vfl_pb2.TRAIN)
        del split_model.local_model._slots[EARLY_CHECKPOINT]
        with pytest.raises(NoCopy, match="no copy 'early checkpoint'"):
            split_model.restore_copy(EARLY_CHECKPOINT, "original", vfl_pb2.UNLEARN)
