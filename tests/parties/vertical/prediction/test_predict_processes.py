"""Prediction in real processes: mutual TLS, HTTP, and a party that is killed and restarted."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
from prediction_parties import predict_rows, trained_parties
from three_parties import agreement

from parties.data.predictions import write_predictions

ROOT = Path(__file__).parents[4]
CALL = "from parties.cli.main import main; main()"
SERVING = re.compile(r"serving at (\S+)")
Process = subprocess.Popen[str]


def toml(value: Any) -> str:
    """A value in TOML on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(part)}" for name, part in value.items()) + " }"
    return json.dumps(value)


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of three organisations after training."""
    folder = trained_parties(tmp_path_factory.mktemp("once"))
    lines = [f"{name} = {toml(value)}" for name, value in agreement().items()]
    (folder / "trio.toml").write_text("\n".join(lines) + "\n")
    for name in ("hub", "left", "right"):
        data = {"kind": "csv", "path": f"{name}.csv", "id": {"columns": ["id"]}}
        data |= {"label": "label"} if name == "hub" else {}
        (folder / f"{name}.party.toml").write_text(f"data = {toml(data)}\n")
    return folder


class Command:
    """Starts ``vfl predict`` at a party, and ends all processes at the end."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self.running: list[Process] = []

    def __call__(self, name: str, *options: str) -> Process:
        command = [sys.executable, "-c", CALL, "predict", str(self._folder / "trio.toml")]
        command += ["--party", name, "--hub", f"127.0.0.1:{self._port}"]
        command += ["--runs", str(self._folder / "runs"), *options]
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.running.append(process)
        return process


@pytest.fixture
def start(trained_folder: Path, port: int) -> Iterator[Command]:
    command = Command(trained_folder, port)
    yield command
    for process in command.running:
        process.kill()
        process.communicate()


def ended(process: Process) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=60)
    return process.returncode, out, errors


def fetch(url: str, ids: list[str] | None = None) -> tuple[int, Any]:
    body = None if ids is None else json.dumps({"ids": ids}).encode()
    try:
        with urlopen(Request(url, body), timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())
    except URLError:
        return 0, {}


def wait_for_reply(url: str, ids: list[str] | None, condition: Any) -> Any:
    """Request until the answer is as wanted; return that answer."""
    pause, deadline = Event(), monotonic() + 45
    while monotonic() < deadline:
        status, reply = fetch(url, ids)
        if condition(status, reply):
            return reply
        pause.wait(0.1)
    raise AssertionError(f"the last answer was {status}: {reply}")


@pytest.mark.slow
def test_prediction_file_is_written_over_tls(
    trained_folder: Path, start: Command, tmp_path: Path
) -> None:
    expected = predict_rows(trained_folder)
    write_predictions(tmp_path / "expected.csv", expected)
    others = [start("left"), start("right")]
    out = tmp_path / "found.csv"
    code, output, errors = ended(start("hub", "--out", str(out)))
    assert code == 0, errors
    held = int(expected.held.sum())
    assert f"{held} rows predicted, {len(expected.held) - held} not held by all" in output
    assert out.read_text() == (tmp_path / "expected.csv").read_text()
    assert [ended(each)[0] for each in others] == [0, 0]


@pytest.mark.slow
def test_absent_party_ends_a_batch_and_is_named(start: Command, tmp_path: Path) -> None:
    quick = ("--set", "limits.join_seconds=6.0")
    left = start("left", *quick)
    out = tmp_path / "found.csv"
    code, _, errors = ended(start("hub", "--out", str(out), *quick))
    assert code == 6
    assert "right did not join within 6 s" in errors
    assert not out.exists()
    assert left.poll() is None  # it waits for the next attempt


@pytest.mark.slow
def test_service_survives_the_loss_of_a_party(trained_folder: Path, start: Command) -> None:
    hub, left, right = start("hub", "--http", "127.0.0.1:0"), start("left"), start("right")
    url = next(match[1] for match in map(SERVING.search, hub.stdout or ()) if match)
    wait_for_reply(f"{url}/health", None, lambda _, match: match.get("ready"))
    rows = predict_rows(trained_folder, ["p1", "p2", "p3"]).as_json()
    assert fetch(f"{url}/predict", ["p1", "p2", "p3"]) == (200, {"predictions": rows})

    right.kill()
    gone = wait_for_reply(
        f"{url}/predict", ["p1"], lambda status, reply: status == 503 and reply["absent"]
    )
    assert "right" in gone["absent"]
    assert "vfl predict" in gone["hint"]
    wait_for_reply(f"{url}/health", None, lambda _, reply: reply["parties"]["left"] == "here")
    assert fetch(f"{url}/health")[1]["parties"]["right"] == "absent"
    assert hub.poll() is left.poll() is None

    again = start("right")
    wait_for_reply(f"{url}/predict", ["p1"], lambda status, _: status == 200)
    hub.send_signal(signal.SIGTERM)
    code, output, errors = ended(hub)
    assert code == 0, errors
    assert re.search(r"\d+ requests, \d+ rows: p50 [\d.]+ ms, p99 [\d.]+ ms", output)
    assert [ended(each)[0] for each in (left, again)] == [0, 0]
