"""Tests of the progress display: the estimate of the remaining time, and its printed lines."""

from io import StringIO
from pathlib import Path

import pytest
from bench_runs import write_list
from rich.console import Console

from configs.experiments import read_experiments
from parties.experiments.bench.benches import plan_vertical_runs
from parties.experiments.bench.plan import Scope
from parties.experiments.bench.runner import BenchProgress, RunStatus, remaining_seconds


def test_remaining_time_uses_the_mean_of_each_kind_and_all_workers() -> None:
    """Two runs of 4 s each and a new kind at the mean of all kinds (6 s): 14 s, for two workers."""
    durations = {"a": [3.0, 5.0], "b": [10.0]}
    assert remaining_seconds(durations, ["a", "a", "new"], workers=2) == pytest.approx(7.0)
    assert remaining_seconds({}, ["a"], workers=2) is None
    assert remaining_seconds(durations, [], workers=2) == 0


def test_failures_are_printed_once_and_listed(tmp_path: Path) -> None:
    runs = plan_vertical_runs(read_experiments(write_list(tmp_path)), tmp_path, Scope())
    out = StringIO()
    with BenchProgress(Console(file=out), runs, workers=1) as progress:
        progress.show(RunStatus(runs[0], "waits"))
        progress.show(RunStatus(runs[0], "started"))
        progress.show(RunStatus(runs[0], "done", 60.0))
        progress.show(RunStatus(runs[2], "failed", 1.0, "exit code 4: no \x1b[2Jrows"))
    assert progress.failed == ["fails: bad, seed 0: exit code 4: no \\x1b[2Jrows"]
    lines = out.getvalue().splitlines()
    assert lines[0] == "waits: another command executes works: good, seed 0"
    assert lines[1] == "1/3  works: good, seed 0  about 2 min left"
    assert lines[2].startswith("failed: fails: bad, seed 0")
