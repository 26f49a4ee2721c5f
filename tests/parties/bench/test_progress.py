"""The board: what it believes about the time that is left, and what it says off a terminal."""

from io import StringIO
from pathlib import Path

import pytest
from bench.bench_runs import write_list
from rich.console import Console

from configs.experiments import read_experiments
from parties.experiments.bench.plan import Scope, runs
from parties.experiments.bench.progress import Board, remaining
from parties.experiments.bench.runner import Told


def test_remaining_time_is_by_kind_and_over_workers() -> None:
    """Two of a kind of 4 s on average, one of a new kind at the mean of all (6 s): 14 s for two."""
    durations = {"a": [3.0, 5.0], "b": [10.0]}
    assert remaining(durations, ["a", "a", "new"], workers=2) == pytest.approx(7.0)
    assert remaining({}, ["a"], workers=2) is None
    assert remaining(durations, [], workers=2) == 0


def test_failures_are_named_once_and_kept(tmp_path: Path) -> None:
    wanted = runs(read_experiments(write_list(tmp_path)), tmp_path, Scope())
    out = StringIO()
    with Board(Console(file=out), wanted, workers=1) as board:
        board.show(Told(wanted[0], "waits"))
        board.show(Told(wanted[0], "started"))
        board.show(Told(wanted[0], "done", 60.0))
        board.show(Told(wanted[2], "failed", 1.0, "exit code 4: no \x1b[2Jrows"))
    assert board.failed == ["fails: bad, seed 0: exit code 4: no \\x1b[2Jrows"]
    said = out.getvalue().splitlines()
    assert said[0] == "waits: works: good, seed 0 is under way in another command"
    assert said[1] == "1/3  works: good, seed 0  about 2 min left"
    assert said[2].startswith("failed: fails: bad, seed 0")
