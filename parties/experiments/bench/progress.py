"""The board: how many runs are made, what is under way, and how long the rest will take."""

from collections.abc import Sequence
from statistics import fmean
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from parties.common.printable import printable
from parties.experiments.bench.plan import Run
from parties.experiments.bench.runner import Told


def remaining(durations: dict[str, list[float]], left: Sequence[str], workers: int) -> float | None:
    """Seconds until the last run ends, ``left`` being the kinds of the runs that are not made.

    A kind without any duration counts as the mean of all; None before the first.
    """
    known = [each for made in durations.values() for each in made]
    if not known:
        return None
    usual = fmean(known)
    return sum(fmean(durations.get(kind) or [usual]) for kind in left) / workers


class Board:
    """Shows every event of the scheduler; off a terminal only failures and each run's end."""

    def __init__(self, console: Console, wanted: Sequence[Run], workers: int) -> None:
        self._console, self._workers = console, workers
        self._left = {run.digest: _kind(run) for run in wanted}
        self._all = len(self._left)
        self._durations: dict[str, list[float]] = {}
        self.failed: list[str] = []
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rest]}"),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._bar = self._progress.add_task("runs", total=self._all, rest="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, told: Told) -> None:
        """Take one event."""
        title = printable(told.run.title)
        if told.state == "waits":
            self._say(f"waits: {title} is under way in another command")
            return
        if told.state == "started":
            self._progress.update(self._bar, description=title)
            return
        self._left.pop(told.run.digest, None)
        if told.state == "failed":
            self.failed.append(f"{title}: {printable(told.reason)}")
            self._say(f"failed: {self.failed[-1]}")
        else:
            self._durations.setdefault(_kind(told.run), []).append(told.seconds)
        if told.state == "done" and not self._console.is_terminal:
            self._say(f"{self._all - len(self._left)}/{self._all}  {title}  {self._rest()}")
        done = self._all - len(self._left)
        self._progress.update(self._bar, completed=done, rest=self._rest())

    def _rest(self) -> str:
        seconds = remaining(self._durations, list(self._left.values()), self._workers)
        return "" if seconds is None else f"about {seconds / 60:.0f} min left"

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _kind(run: Run) -> str:
    """Runs that take about as long as each other."""
    return f"{run.config.stem} {run.variant} {run.processes}"
