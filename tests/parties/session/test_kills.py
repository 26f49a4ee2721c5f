"""A party that is killed or terminated returns, and the run ends with the same result."""

import json
import signal
from pathlib import Path
from random import Random
from time import sleep

import pytest
from kills import Runs, digests, finish, wait_for, wait_for_note

HUNG_UP = ("stopped by SIGTERM", "closed the connection")  # inside a message: only the second


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def expected(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests of a run without interruptions."""
    return runs.run_uninterrupted(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_restarted_parties_reach_the_same_parameters(
    runs: Runs, expected: dict[str, str], tmp_path: Path
) -> None:
    """Each of the three parties is killed once, in one run."""
    random = Random(0)
    assert len(expected) == 6
    with runs.all(tmp_path) as (running, port):
        for victim, phase in (("left", "training"), ("office", "fedora"), ("right", "retrain")):
            wait_for(running["office"], phase)
            sleep(random.uniform(0.0, 0.6))
            running[victim].process.send_signal(signal.SIGKILL)
            running[victim].process.wait()
            running[victim] = runs.start(victim, tmp_path, port)
            wait_for_note(running[victim], "resumed checkpoint")
        finish(running)
    assert digests(tmp_path) == expected


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_terminated_parties_exit_cleanly_and_the_run_continues(
    runs: Runs, expected: dict[str, str], tmp_path: Path
) -> None:
    """SIGTERM to a passive party, then to the active party."""
    with runs.all(tmp_path) as (running, port):
        for victim, phase in (("left", "fedora"), ("office", "retrain")):
            wait_for(running["office"], phase)
            others = [(each, len(each.notes)) for name, each in running.items() if name != victim]
            stopped = running[victim]
            stopped.process.send_signal(signal.SIGTERM)
            assert stopped.process.wait(20) == 0, stopped.notes
            running[victim] = runs.start(victim, tmp_path, port)
            for other, before in others:
                wait_for_note(other, *HUNG_UP, after=before)
        finish(running)
    assert digests(tmp_path) == expected


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_run_that_a_party_leaves_writes_a_partial_report(runs: Runs, tmp_path: Path) -> None:
    with runs.all(tmp_path / "out", "limits.rejoin_seconds=0") as (running, _):
        wait_for(running["office"], "fedora")
        running["right"].process.kill()
        assert running["office"].process.wait(60) == 6
        assert any(note.startswith("right: ") for note in running["office"].notes)
        assert running["left"].process.wait(60) == 6
    folder = tmp_path / "out" / "digits"
    partial = json.loads((folder / "partial.json").read_text())
    assert partial["failure"].startswith("right: ")
    assert partial["training"]["steps"]
    assert "Unfinished" in (folder / "partial.html").read_text()
    assert not (folder / "metrics.json").exists()
