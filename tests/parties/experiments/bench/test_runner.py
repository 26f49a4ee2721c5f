"""Tests of the scheduler with real runs: parallel, kept when finished, named when failed."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench_runs import write_list

from configs.errors import ConfigError
from configs.experiments import read_experiments
from parties.common.errors import Stopped
from parties.experiments.bench import runner
from parties.experiments.bench.benches import plan_vertical_runs
from parties.experiments.bench.cache import extract_records, lock_pages, read_cache, write_cache
from parties.experiments.bench.extract import extract_vertical
from parties.experiments.bench.plan import PlannedRun, Scope
from parties.experiments.bench.results import collect_results
from parties.experiments.bench.runner import (
    RunPlace,
    RunStatus,
    execute_runs,
    read_run_record,
    run_command,
)
from parties.experiments.provenance import RunningCode


def planned(folder: Path) -> list[PlannedRun]:
    return plan_vertical_runs(read_experiments(write_list(folder)), folder, Scope())


@pytest.mark.slow
def test_runs_are_parallel_and_a_second_start_keeps_finished_runs(
    tmp_path: Path,
) -> None:
    runs, place = planned(tmp_path), RunPlace(tmp_path / "out", None, workers=3)
    statuses: list[RunStatus] = []
    new_records = execute_runs(runs, place, statuses.append)

    assert [each.state for each in statuses[:3]] == ["started"] * 3, "all three in parallel"
    failed = [each for each in statuses if each.state == "failed"]
    assert [each.run.experiment for each in failed] == ["fails"]
    assert "batch" in failed[0].reason
    assert len(new_records) == 2
    for run in runs[:2]:
        assert {path.name for path in place.folder(run).iterdir()} == {"metrics.json"}
        assert (
            new_records[run.digest]["bench"]["seed"]
            == run.seed
            == new_records[run.digest]["run"]["seed"]
        )

    repeated: list[RunStatus] = []
    broken = place.folder(runs[0]) / "metrics.json"
    broken.write_text(broken.read_text()[:-20])  # as after a full disk
    execute_runs(runs[:2], place, repeated.append)
    assert sorted(each.state for each in repeated) == ["done", "kept", "started"]
    assert {each.run.seed for each in repeated if each.state == "kept"} == {1}

    records = {run.digest: read_run_record(place, run) for run in runs[:2]}
    write_cache(tmp_path / "docs", extract_records(runs, records, extract_vertical))
    stored = read_cache(tmp_path / "docs")
    assert [each.title for each in stored.values()] == sorted(run.title for run in runs[:2])
    assert stored == extract_records(runs, records, extract_vertical)

    results = collect_results(runs, stored)
    assert (results.there, results.wanted) == (2, 3)
    seconds = sum(read_run_record(place, run)["bench"]["seconds"] for run in runs[:2])  # type: ignore[index]
    assert results.hours == pytest.approx(seconds / 3600 / 2)
    assert set(results.found) >= {("works", "good", "fedora"), ("works", "good", "retrain")}


@pytest.mark.slow
def test_two_commands_execute_a_run_once(tmp_path: Path) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    statuses: list[RunStatus] = []
    with ThreadPoolExecutor(2) as both:
        records = list(both.map(lambda _: execute_runs([run], place, statuses.append), range(2)))
    assert sorted(each.state for each in statuses) == ["done", "kept", "started", "waits"]
    assert records[0] == records[1] == {run.digest: read_run_record(place, run)}
    assert {path.name for path in place.folder(run).iterdir()} == {"metrics.json"}


@pytest.mark.slow
def test_folder_of_a_locked_run_is_not_changed(tmp_path: Path) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    other_file = place.folder(run) / "work" / "theirs"
    other_file.parent.mkdir(parents=True)
    other_file.touch()
    log = place.folder(run) / "log"
    script = "import fcntl, sys, time; fcntl.flock(1, fcntl.LOCK_EX); print('!', flush=True)"
    with (
        log.open("ab") as locked,
        ThreadPoolExecutor(1) as other,
    ):  # as a child process whose parent was killed
        child = subprocess.Popen([sys.executable, "-c", f"{script}; time.sleep(60)"], stdout=locked)
        while not log.read_bytes():
            time.sleep(0.05)
        waiting = other.submit(execute_runs, [run], place, lambda _: None)
        try:
            time.sleep(2.5)
            assert other_file.exists()
            assert log.read_bytes() == b"!\n"
        finally:
            child.kill()
            child.wait()
            locked.close()
        assert waiting.result(120) == {run.digest: read_run_record(place, run)}


@pytest.mark.slow
def test_gpu_runs_are_sequential(tmp_path: Path) -> None:
    absent = replace(planned(tmp_path)[0], config=tmp_path / "absent.toml", gpu=True)
    runs = [replace(absent, seed=seed, digest=str(seed)) for seed in range(2)]
    place, ended = RunPlace(tmp_path / "out", None, workers=2), list[bool]()

    def listen(status: RunStatus) -> None:
        if status.state == "started":
            logs = [place.folder(run) / "log" for run in runs if run is not status.run]
            ended.append(any("absent.toml" in log.read_text() for log in logs if log.exists()))

    execute_runs(runs, place, listen)
    assert ended == [False, True], "the second run starts after the first one has ended"


def test_second_publisher_waits(tmp_path: Path) -> None:
    order: list[str] = []

    def publish() -> None:
        with lock_pages(tmp_path / "docs"):
            order.append("second")

    with ThreadPoolExecutor(1) as other:
        with lock_pages(tmp_path / "docs"):
            waits = other.submit(publish)
            time.sleep(0.3)
            order.append("first")
        waits.result(10)
    assert order == ["first", "second"]


@pytest.mark.slow
def test_stop_ends_the_child_processes(tmp_path: Path) -> None:
    runs, place = planned(tmp_path), RunPlace(tmp_path / "out", None, workers=3)

    def stop(status: RunStatus) -> None:
        if status.state == "failed":
            raise Stopped("stopped by SIGTERM")

    missing = [replace(runs[2], config=tmp_path / "absent.toml")]
    with pytest.raises(Stopped):
        execute_runs([*missing, *runs[:2]], place, stop)
    assert read_run_record(place, runs[0]) is None


@pytest.mark.parametrize("change", [True, False])
def test_record_of_a_run_during_which_the_code_changed_has_unknown_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, change: bool
) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    code, made = tmp_path / "code.py", place.folder(run) / "work" / "tiny" / "metrics.json"
    code.write_text("LIMIT = 3")
    begun = RunningCode.begin(["code.py"], tmp_path)

    class Child:
        def wait(self) -> int:
            made.parent.mkdir()
            made.write_text("{}")
            code.write_text(f"LIMIT = {4 if change else 3}")
            return 0

    monkeypatch.setattr(runner._Children, "start", lambda *_: Child())
    program = SimpleNamespace(begin=lambda _: RunningCode.begin(["code.py"], tmp_path))
    monkeypatch.setattr(runner, "RunningCode", program)
    record = execute_runs([run], place, lambda _: None)[run.digest]
    assert record["bench"]["provenance"]["code"] == ("" if change else begun.started.code)


def test_incomplete_record_is_not_read(tmp_path: Path) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    assert read_run_record(place, run) is None
    place.folder(run).mkdir(parents=True)
    (place.folder(run) / "metrics.json").write_text(json.dumps({"run": {}})[:-1])
    assert read_run_record(place, run) is None


def test_command_of_a_run(tmp_path: Path) -> None:
    run = planned(tmp_path)[0]
    command = run_command(run, RunPlace(tmp_path / "out", Path("/data")), tmp_path / "work")
    assert command[1:5] == ["-m", "parties.cli", "simulate", str(tmp_path / "tiny.toml")]
    assert command[-4:] == ["--data", "/data", "--set", "seed=0"]
    assert "--in-process" in command


def test_truncated_cache_is_refused(tmp_path: Path) -> None:
    assert read_cache(tmp_path) == {}
    for content in ("{", '{"abc": {"title": "x"}}', "[]"):
        (tmp_path / "runs.json").write_text(content)
        with pytest.raises(ConfigError, match="cannot be read"):
            read_cache(tmp_path)
