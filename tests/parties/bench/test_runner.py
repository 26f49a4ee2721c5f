"""Tests of the scheduler with real runs: parallel, kept when finished, named when failed."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from bench.bench_runs import write_list

from configs.errors import ConfigError
from configs.experiments import read_experiments
from parties.common.errors import Stopped
from parties.experiments.bench.cache import extract_records, lock_pages, read_cache, write_cache
from parties.experiments.bench.extract import extract_vertical
from parties.experiments.bench.plan import PlannedRun, Scope, plan_vertical_runs
from parties.experiments.bench.results import collect_results
from parties.experiments.bench.runner import (
    RunPlace,
    RunStatus,
    execute_runs,
    read_run_record,
    run_command,
)


def planned(folder: Path) -> list[PlannedRun]:
    return plan_vertical_runs(read_experiments(write_list(folder)), folder, Scope())


@pytest.mark.slow
def test_runs_go_in_parallel_failures_are_told_and_a_second_start_keeps_what_is_there(
    tmp_path: Path,
) -> None:
    wanted, place = planned(tmp_path), RunPlace(tmp_path / "out", None, workers=3)
    told: list[RunStatus] = []
    made = execute_runs(wanted, place, told.append)

    assert [each.state for each in told[:3]] == ["started"] * 3, "all three at a time"
    failed = [each for each in told if each.state == "failed"]
    assert [each.run.experiment for each in failed] == ["fails"]
    assert "batch" in failed[0].reason
    assert len(made) == 2
    for run in wanted[:2]:
        assert {path.name for path in place.folder(run).iterdir()} == {"metrics.json"}
        assert made[run.digest]["bench"]["seed"] == run.seed == made[run.digest]["run"]["seed"]

    again: list[RunStatus] = []
    broken = place.folder(wanted[0]) / "metrics.json"
    broken.write_text(broken.read_text()[:-20])  # as a full disk might have left it
    execute_runs(wanted[:2], place, again.append)
    assert sorted(each.state for each in again) == ["done", "kept", "started"]
    assert {each.run.seed for each in again if each.state == "kept"} == {1}

    records = {run.digest: read_run_record(place, run) for run in wanted[:2]}
    write_cache(tmp_path / "docs", extract_records(wanted, records, extract_vertical))
    stored = read_cache(tmp_path / "docs")
    assert [each.title for each in stored.values()] == sorted(run.title for run in wanted[:2])
    assert stored == extract_records(wanted, records, extract_vertical)

    found = collect_results(wanted, stored)
    assert (found.there, found.wanted) == (2, 3)
    took = sum(read_run_record(place, run)["bench"]["seconds"] for run in wanted[:2])  # type: ignore[index]
    assert found.hours == pytest.approx(took / 3600 / 2)
    assert set(found.found) >= {("works", "good", "fedora"), ("works", "good", "retrain")}


@pytest.mark.slow
def test_two_commands_at_once_make_a_run_once(tmp_path: Path) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    told: list[RunStatus] = []
    with ThreadPoolExecutor(2) as both:
        made = list(both.map(lambda _: execute_runs([run], place, told.append), range(2)))
    assert sorted(each.state for each in told) == ["done", "kept", "started", "waits"]
    assert made[0] == made[1] == {run.digest: read_run_record(place, run)}
    assert {path.name for path in place.folder(run).iterdir()} == {"metrics.json"}


@pytest.mark.slow
def test_while_somebody_holds_a_run_nobody_touches_its_folder(tmp_path: Path) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    theirs = place.folder(run) / "work" / "theirs"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    log = place.folder(run) / "log"
    script = "import fcntl, sys, time; fcntl.flock(1, fcntl.LOCK_EX); print('!', flush=True)"
    with log.open("ab") as said, ThreadPoolExecutor(1) as other:  # as a child whose parent died
        child = subprocess.Popen([sys.executable, "-c", f"{script}; time.sleep(60)"], stdout=said)
        while not log.read_bytes():
            time.sleep(0.05)
        made = other.submit(execute_runs, [run], place, lambda _: None)
        try:
            time.sleep(2.5)
            assert theirs.exists()
            assert log.read_bytes() == b"!\n"
        finally:
            child.kill()
            child.wait()
            said.close()
        assert made.result(120) == {run.digest: read_run_record(place, run)}


@pytest.mark.slow
def test_runs_that_fill_a_gpu_are_made_one_at_a_time(tmp_path: Path) -> None:
    absent = replace(planned(tmp_path)[0], config=tmp_path / "absent.toml", gpu=True)
    wanted = [replace(absent, seed=seed, digest=str(seed)) for seed in range(2)]
    place, ended = RunPlace(tmp_path / "out", None, workers=2), list[bool]()

    def listen(told: RunStatus) -> None:
        if told.state == "started":
            logs = [place.folder(run) / "log" for run in wanted if run is not told.run]
            ended.append(any("absent.toml" in log.read_text() for log in logs if log.exists()))

    execute_runs(wanted, place, listen)
    assert ended == [False, True], "the second starts when the first has said why it ended"


def test_whoever_publishes_second_waits(tmp_path: Path) -> None:
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
def test_being_stopped_ends_the_children(tmp_path: Path) -> None:
    wanted, place = planned(tmp_path), RunPlace(tmp_path / "out", None, workers=3)

    def stop(told: RunStatus) -> None:
        if told.state == "failed":
            raise Stopped("stopped by SIGTERM")

    missing = [replace(wanted[2], config=tmp_path / "absent.toml")]
    began = time.monotonic()
    with pytest.raises(Stopped):
        execute_runs([*missing, *wanted[:2]], place, stop)
    assert time.monotonic() - began < 60
    assert read_run_record(place, wanted[0]) is None


def test_half_a_record_is_none(tmp_path: Path) -> None:
    run, place = planned(tmp_path)[0], RunPlace(tmp_path / "out", None)
    assert read_run_record(place, run) is None
    place.folder(run).mkdir(parents=True)
    (place.folder(run) / "metrics.json").write_text(json.dumps({"run": {}})[:-1])
    assert read_run_record(place, run) is None


def test_command_is_one_that_a_person_may_type(tmp_path: Path) -> None:
    run = planned(tmp_path)[0]
    said = run_command(run, RunPlace(tmp_path / "out", Path("/data")), tmp_path / "work")
    assert said[1:5] == ["-m", "parties.cli", "simulate", str(tmp_path / "tiny.toml")]
    assert said[-4:] == ["--data", "/data", "--set", "seed=0"]
    assert "--in-process" in said


def test_figures_that_were_cut_off_are_refused(tmp_path: Path) -> None:
    assert read_cache(tmp_path) == {}
    for content in ("{", '{"abc": {"title": "x"}}', "[]"):
        (tmp_path / "runs.json").write_text(content)
        with pytest.raises(ConfigError, match="cannot be read"):
            read_cache(tmp_path)
