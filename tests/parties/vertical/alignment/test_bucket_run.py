"""An intersection in buckets: the same result as in one piece, also after a kill and a restart."""

import subprocess
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psi_process
import pytest
from whole_run import run

from parties.vertical.alignment import bucket_run
from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.hub import Hub

PARTIES, COUNT, BUCKET, BUCKETS = 3, 80_000, 2048, 39


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psi.buckets.MIN_BUCKET_IDS", 20)
    monkeypatch.setattr("psi.buckets.MAX_UNCUT_IDS", 40)


def test_buckets_change_nothing_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = []
    for name, bucket in (("whole", 1000), ("cut", 20)):
        monkeypatch.setattr("psi.buckets.MIN_BUCKET_IDS", bucket)
        monkeypatch.setattr("psi.buckets.MAX_UNCUT_IDS", 2 * bucket)
        monkeypatch.setattr(bucket_run, "TAGS_AT_ONCE", 50)  # so that tags need several messages
        (tmp_path / name).mkdir()
        metrics = run(tmp_path / name)
        results.append((metrics["run"]["common_rows"], metrics["training"]))
        assert not list((tmp_path / name).rglob("psi"))
    assert results[0] == results[1]


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("change", [[1], [10**6], [10**19, 10**19], []])
def test_wrong_number_of_tags_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: list[int]
) -> None:
    send = bucket_run._send
    monkeypatch.setattr(
        bucket_run, "_send", lambda hub, digest, counts, tags: send(hub, digest, change, tags)
    )
    with pytest.raises(ProtocolError, match=r"sent \d+ tags .*; expected \d+ tags \(the sum"):
        run(tmp_path)


@pytest.mark.usefixtures("small_buckets")
def test_leader_that_skips_incomplete_buckets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broadcast = Hub.broadcast

    def skipping(self, body, *tensors):
        if isinstance(body, vfl_pb2.KeyShares):
            body.first_bucket = 1
        broadcast(self, body, *tensors)

    monkeypatch.setattr(Hub, "broadcast", skipping)
    with pytest.raises(ProtocolError, match=r"starts with bucket 1; .* completed 0 of 12"):
        run(tmp_path)


@pytest.mark.usefixtures("small_buckets")
def test_tags_before_the_last_bucket_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = bucket_run._collect

    def collect_early(party, hub, own, number, bucket, patience):
        collect(party, hub, own, number, bucket, patience)
        bucket_run._send(hub, bytes(32), [1], np.zeros((1, 24), np.uint8))
        hub.gather(patience)

    monkeypatch.setattr(bucket_run, "_collect", collect_early)
    monkeypatch.setattr(bucket_run, "LOOK_AHEAD", 0)
    with pytest.raises(ProtocolError, match=r"aborted: .*sent MatchTags; expected OprfMatrix"):
        run(tmp_path)


class Run:
    """All parties of one start, and their output."""

    def __init__(self, folder: Path, port: int) -> None:
        self.processes = {
            name: psi_process.start(folder, name, PARTIES, COUNT, port, BUCKET)
            for name in psi_process.names(PARTIES)
        }
        self.received: dict[str, list[dict[str, Any]]] = {name: [] for name in self.processes}
        self.readers = [Thread(target=self._read, args=item) for item in self.processes.items()]
        self.victim: str | None = None
        self.killed_at = 0

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        for event in psi_process.events(process):
            self.received[name].append(event)
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
            reader.join(200)
        for process in self.processes.values():
            process.kill()
        last = {name: events[-1] for name, events in self.received.items()}
        return {name: event for name, event in last.items() if event["event"] == "figures"}


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["hub", "p2"])
def test_completed_buckets_are_skipped_after_sigkill(
    tmp_path: Path, port: int, victim: str
) -> None:
    psi_process.certify(tmp_path, PARTIES)
    first = Run(tmp_path, port)
    assert first.finish(victim) == {}
    assert first.killed_at >= 5
    again = Run(tmp_path, port)
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
    phase = f"finding common rows, {BUCKETS - run} of {BUCKETS} buckets kept from an earlier start"
    for events in again.received.values():
        assert phase in {event.get("phase") for event in events}
    assert not list(tmp_path.rglob("psi"))


@pytest.mark.slow
def test_progress_shows_buckets_done_of_total(tmp_path: Path, port: int) -> None:
    psi_process.certify(tmp_path, PARTIES)
    run = Run(tmp_path, port)
    figures = run.finish()
    assert {each["stores"] for each in figures.values()} == {BUCKETS, 2 * BUCKETS}
    for events in run.received.values():
        shown = [each for each in events if each.get("phase") == "finding common rows"]
        assert {each["total"] for each in shown} == {BUCKETS}
        assert any(0 < each["done"] < BUCKETS for each in shown)
