"""A large intersection over real processes: killed in the middle, started again, goes on."""

import subprocess
from pathlib import Path
from threading import Thread
from typing import Any

import psi_process
import pytest

PARTIES, COUNT, BUCKET, BUCKETS = 3, 80_000, 2048, 39


class Run:
    """All parties of one start, and what they said."""

    def __init__(self, folder: Path) -> None:
        port = psi_process.free_port()
        self.processes = {
            name: psi_process.start(folder, name, PARTIES, COUNT, port, BUCKET)
            for name in psi_process.names(PARTIES)
        }
        self.said: dict[str, list[dict[str, Any]]] = {name: [] for name in self.processes}
        self.readers = [Thread(target=self._read, args=item) for item in self.processes.items()]
        self.victim: str | None = None
        self.killed_at = 0

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        for event in psi_process.events(process):
            self.said[name].append(event)
            self._watch(event)

    def _watch(self, event: dict[str, Any]) -> None:
        """Kill the victim once the hub has completed some buckets."""
        far = event.get("phase") == "finding common rows" and event["done"] >= 5
        if self.victim and event["party"] == "hub" and far:
            self.processes[self.victim].kill()
            self.killed_at, self.victim = event["done"], None

    def finish(self, victim: str | None = None) -> dict[str, dict[str, Any]]:
        """The figures of those that came to an end."""
        self.victim = victim
        for reader in self.readers:
            reader.start()
        for reader in self.readers:
            reader.join(90)
        for process in self.processes.values():
            process.kill()
        last = {name: said[-1] for name, said in self.said.items()}
        return {name: event for name, event in last.items() if event["event"] == "figures"}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["hub", "p2"])
def test_after_kill_minus_nine_completed_buckets_are_skipped(tmp_path: Path, victim: str) -> None:
    psi_process.certify(tmp_path, PARTIES)
    first = Run(tmp_path)
    assert first.finish(victim) == {}
    assert first.killed_at >= 5
    again = Run(tmp_path)
    figures = again.finish()
    assert set(figures) == set(again.processes)
    assert {each["common"] for each in figures.values()} == {COUNT // 2}
    assert len({each["order"] for each in figures.values()}) == 1
    # The ledger of the second start: a store for each bucket that was not complete.
    run = figures["p1"]["stores"]
    assert run <= BUCKETS - first.killed_at
    assert {name: each["stores"] for name, each in figures.items()} == {
        "hub": 2 * run, "p1": run, "p2": run
    }  # fmt: skip
    told = f"finding common rows, {BUCKETS - run} of {BUCKETS} buckets kept from an earlier start"
    for said in again.said.values():
        assert told in {event.get("phase") for event in said}
    assert not list(tmp_path.rglob("psi"))


@pytest.mark.slow
def test_progress_shows_buckets_done_of_total(tmp_path: Path) -> None:
    psi_process.certify(tmp_path, PARTIES)
    run = Run(tmp_path)
    figures = run.finish()
    assert {each["stores"] for each in figures.values()} == {BUCKETS, 2 * BUCKETS}
    for said in run.said.values():
        shown = [each for each in said if each.get("phase") == "finding common rows"]
        assert {each["total"] for each in shown} == {BUCKETS}
        assert any(0 < each["done"] < BUCKETS for each in shown)
