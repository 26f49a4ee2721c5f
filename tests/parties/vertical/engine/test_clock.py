"""Changes of the wall clock during a run change nothing: durations use a monotonic clock."""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta, tzinfo
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from whole_run import run

from parties.vertical.engine.training_loop import TrainingLoop

JUMPS = (timedelta(hours=1), timedelta(hours=-1), timedelta(days=1), timedelta(days=-1))


class JumpingClock(datetime):
    """The wall clock, after it was set to a wrong time."""

    shift = timedelta()

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + cls.shift


def train_losses(folder: Path) -> list[Any]:
    folder.mkdir()
    metrics = run(folder, unlearn=({"name": "half", "classes": ["a"], "fraction": 0.5},))
    (request,) = metrics["requests"]
    return [metrics["training"], *((m["steps"], m["accuracy"]) for m in request["methods"])]


@pytest.fixture
def jumps(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[timedelta]]:
    """The wall clock jumps at each pass over the rows, after the handshake."""
    made, sweep, real = cycle(JUMPS), TrainingLoop._run_steps, time.time
    seen: list[timedelta] = []

    def jumping(self: TrainingLoop, *given: Any, **more: Any) -> Any:
        JumpingClock.shift = next(made)
        seen.append(JumpingClock.shift)
        return sweep(self, *given, **more)

    monkeypatch.setattr("parties.session.start.datetime", JumpingClock)
    monkeypatch.setattr(time, "time", lambda: real() + JumpingClock.shift.total_seconds())
    monkeypatch.setattr(TrainingLoop, "_run_steps", jumping)
    yield seen
    JumpingClock.shift = timedelta()


def test_wall_clock_jumps_do_not_change_the_result(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    steady = train_losses(tmp_path / "steady")
    seen = request.getfixturevalue("jumps")
    assert train_losses(tmp_path / "jumping") == steady
    assert set(seen) == set(JUMPS)
