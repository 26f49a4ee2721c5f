"""The early copy from which FedORA starts: present at each request, or reported as absent."""

from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from test_requests import common_ids, training_ids
from three_parties import open_split_model
from whole_run import TRAINING, run

from parties.common.errors import NoCopy
from parties.vertical.engine.local_model import EARLY
from protocol import vfl_pb2
from protocol.errors import Aborted

ONE, TWO = (
    {"name": name, "classes": [label], "fraction": 0.2}
    for name, label in (("one", "a"), ("two", "b"))
)


def starts(metrics: dict[str, Any]) -> list[Any]:
    """The slot or model from which FedORA started, for each request."""
    return [each["methods"][1]["facts"]["start"] for each in metrics["requests"]]


def test_a_training_that_stops_before_the_early_epoch_leaves_a_copy(tmp_path: Path) -> None:
    hasty = TRAINING | {"epochs": 40, "patience": 1, "learning_rate": 0.5}
    metrics = run(tmp_path, unlearn=[ONE], training=hasty, fedora={"rewind": 1.0})
    assert len(metrics["training"]["epochs"]) < 40
    assert starts(metrics) == ["rewind"]


def test_a_request_that_ends_before_the_early_iteration_leaves_a_copy(tmp_path: Path) -> None:
    soon = {"iterations": 3, "check_every": 1, "rewind": 1.0, "tolerance": 1e9}
    metrics = run(tmp_path, unlearn=[ONE, TWO], fedora=soon)
    assert metrics["requests"][0]["stopped"] == "converged"
    assert starts(metrics) == ["rewind", "rewind"]


def test_a_request_for_rows_outside_training_leaves_the_copy(tmp_path: Path) -> None:
    learned = set(training_ids(tmp_path, 10_000).split())
    outside = [name for name in common_ids(tmp_path) if name not in learned][:5]
    metrics = run(tmp_path, unlearn=[{"name": "none"}, TWO], ids={"none": "\n".join(outside)})
    first, second = metrics["requests"]
    assert first["forgotten"] == 0
    assert not any(first["remains"].values())
    assert second["forgotten"] > 0


@pytest.mark.parametrize("name", ["left", "right"])
def test_a_passive_party_without_the_copy_is_named_at_once(tmp_path: Path, name: str) -> None:
    with open_split_model(tmp_path) as (leading, answerers):
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        leading.keep_copy(EARLY, vfl_pb2.TRAIN)
        del answerers[name]._state.local_model._slots[EARLY]
        began = monotonic()
        with pytest.raises(Aborted, match=f"{name}: .*no copy 'early copy'.*--begin fresh"):
            leading.restore_copy(EARLY, "original", vfl_pb2.UNLEARN)
        assert monotonic() - began < leading.time_limit / 2


def test_an_active_party_without_the_copy_says_so(tmp_path: Path) -> None:
    with open_split_model(tmp_path) as (leading, _):
        leading.initialise("original", vfl_pb2.TRAIN_ROWS, vfl_pb2.TRAIN)
        leading.keep_copy(EARLY, vfl_pb2.TRAIN)
        del leading.local_model._slots[EARLY]
        with pytest.raises(NoCopy, match="no copy 'early copy'"):
            leading.restore_copy(EARLY, "original", vfl_pb2.UNLEARN)
