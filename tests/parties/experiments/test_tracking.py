"""Figures of runs for TensorBoard and MLflow."""

import json
import struct
from collections import defaultdict
from pathlib import Path

import pytest
from mlflow import MlflowClient
from tensorboardX.proto.event_pb2 import Event as BoardEvent
from typer.testing import CliRunner

from configs.errors import ConfigError
from parties.cli.main import app
from parties.common.errors import StorageError
from parties.common.progress import Event, ProgressReporter
from parties.experiments.tracking import Tracking, tracking

SHORT = ("training.epochs=3", "unlearning.compare=[]", "unlearning.retrains=0")
Curves = dict[str, list[tuple[int, float]]]


def read_board(folder: Path) -> Curves:
    """The points of every curve in the event files of TensorBoard."""
    found: Curves = defaultdict(list)
    for path in folder.glob("*/events*"):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            event = BoardEvent.FromString(content[at + 12 : at + 12 + length])
            at += 16 + length  # the length and the content each have a checksum
            for value in event.summary.value:
                if value.WhichOneof("value") == "simple_value":
                    found[value.tag].append((event.step, value.simple_value))
    return found


def test_the_figures_of_a_run_reach_both_trackers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    board, store = tmp_path / "board", tmp_path / "store"
    words = ["simulate", "digits", "--in-process", "--out", str(tmp_path / "runs")]
    words += ["--track", f"tensorboard:{board}", "--track", f"mlflow:{store}"]
    weights = ",".join(f'"{name}"=1.5' for name in "0123456789")
    for each in (*SHORT, f"training.class_weights={{{weights}}}"):
        words += ["--set", each]
    found = CliRunner().invoke(app, words, catch_exceptions=False)
    assert found.exit_code == 0, found.output

    folder = tmp_path / "runs" / "digits"
    record = json.loads((folder / "metrics.json").read_bytes())
    curves = read_board(board)
    steps = record["training"]["steps"]
    wanted = [(at, pytest.approx(each["loss"])) for at, each in enumerate(steps, 1)]
    assert len(wanted) == 3
    assert curves["training/loss"] == wanted
    assert curves["result/auc"] == [(0, pytest.approx(record["model"]["auc"]))]
    iterations = next(
        each["steps"] for each in record["requests"][0]["methods"] if each["name"] == "fedora"
    )
    assert [step for step, _ in curves["fedora/multiplier"]] == [*range(1, len(iterations) + 1)]

    client = MlflowClient(str(store))
    experiment = client.get_experiment_by_name("digits")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED", found.output
    assert run.data.params["training.epochs"] == "3"
    history = client.get_metric_history(run.info.run_id, "training/loss")
    assert sorted((each.step, each.value) for each in history) == wanted
    files = {each.path for each in client.list_artifacts(run.info.run_id)}
    assert files == {"report.html", "metrics.json"}


class FullDisk:
    """A tracker that cannot write."""

    name, closed = "TensorBoard", False

    def close(self) -> None:
        self.closed = True

    def write(self, *_: object) -> None:
        """Fail as a full disk does."""
        raise OSError(28, "No space left on device")


def test_a_tracker_that_fails_does_not_end_the_run() -> None:
    events: list[Event] = []
    disk = FullDisk()
    found = Tracking([disk], "wood", events.append)  # type: ignore[list-item]
    reporter = ProgressReporter("hub", found.receive)
    reporter.measured("training", 1, {"loss": 0.5})
    reporter.measured("training", 2, {"loss": 0.4})
    kinds = [each["event"] for each in events]
    assert kinds == ["figures", "warning", "figures"]
    assert "No space left" in events[1]["text"]
    assert disk.closed


def test_only_finite_numbers_are_sent() -> None:
    events: list[Event] = []
    figures = {"loss": float("nan"), "auc": 0.5, "name": "x", "good": True, "steps": 2}
    ProgressReporter("hub", events.append).measured("training", 1, figures)
    assert events[0]["figures"] == {"auc": 0.5, "steps": 2}


@pytest.mark.parametrize("target", ["tensorboard", "tensorboard:", "wandb:x", ""])
def test_an_unknown_tracker_is_refused_before_the_run(target: str) -> None:
    with (
        pytest.raises(ConfigError, match="names no known tracker"),
        tracking(["mlflow:http://127.0.0.1:1", target], "wood", print),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(StorageError, match="cannot be written"),
        tracking([f"tensorboard:{tmp_path / 'file'}"], "wood", print),
    ):
        pass
