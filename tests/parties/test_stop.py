"""SIGTERM: a party stops at once and in order, and the run goes on when it is started again."""

import json
import signal
from pathlib import Path

import pytest
from kills import Runs, digests, finish, wait_for


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_party_that_is_told_to_stop_ends_well_and_the_run_goes_on(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    wanted = runs.undisturbed(tmp_path / "undisturbed")
    for victim in ("left", "office"):
        out = tmp_path / victim
        with runs.all(out) as (running, port):
            wait_for(running["office"], "fedora")
            stopped = running[victim]
            stopped.process.send_signal(signal.SIGTERM)
            assert stopped.process.wait(20) == 0, stopped.notes
            running[victim] = runs.start(victim, out, port)
            finish(running)
        assert digests(out) == wanted
        for other in {"left", "right", "office"} - {victim}:
            # Who was stopped in the middle of a word can only hang up.
            told = ("was told to stop", "closed the connection")
            assert any(each in note for note in running[other].notes for each in told), other


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_a_run_whose_party_does_not_come_back_leaves_a_partial_report(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    with runs.all(tmp_path / "out", "limits.rejoin_seconds=0") as (running, _):
        wait_for(running["office"], "fedora")
        running["right"].process.kill()
        assert running["office"].process.wait(60) == 6
        assert any(note.startswith("right: ") for note in running["office"].notes)
        assert running["left"].process.wait(60) == 6
    folder = tmp_path / "out" / "digits"
    partial = json.loads((folder / "partial.json").read_text())
    assert partial["failure"].startswith("right: ")
    assert partial["training"]["epochs"]
    assert "Unfinished" in (folder / "partial.html").read_text()
    assert not (folder / "metrics.json").exists()
