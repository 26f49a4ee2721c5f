"""Scheduler of benchmark runs: one process per run, several in parallel, each run only once."""

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from threading import Lock
from time import monotonic, sleep
from typing import IO, Any, Literal, Self, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from configs.agreement import VerticalAgreement
from parties.common.atomic_file import write_atomically
from parties.common.printable import printable
from parties.experiments.bench.plan import PlannedRun
from parties.experiments.provenance import SCOPES, TABLES, Provenance, RunningCode
from parties.report import METRICS

PATIENCE = 20.0  # seconds in which a child process must end after SIGTERM
WAIT = 1.0  # seconds between two attempts to lock a run of another command
RunState: TypeAlias = Literal["kept", "waits", "started", "done", "failed"]


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a run; a run ``waits`` while another command has locked the run's folder."""

    run: PlannedRun
    state: RunState
    seconds: float = 0.0
    reason: str = ""  # of a failure


RunListener: TypeAlias = Callable[[RunStatus], None]


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where runs are executed: output folder, data folder and number of parallel runs."""

    out: Path
    data: Path | None
    workers: int = 1

    def folder(self, run: PlannedRun) -> Path:
        """Return the folder of a run."""
        return self.out / run.digest


@dataclass(slots=True)
class _Children:
    """Running child processes; after ``stop`` no process starts."""

    lock: Lock = field(default_factory=Lock)
    alive: set[subprocess.Popen[bytes]] = field(default_factory=set)
    stopped: bool = False

    def start(self, command: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes] | None:
        with self.lock:
            if self.stopped:
                return None
            child = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            self.alive.add(child)
            return child

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            ending = list(self.alive)
        for child in ending:
            child.terminate()
        for child in ending:
            try:
                child.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()


def execute_runs(
    wanted: Iterable[PlannedRun], place: RunPlace, listen: RunListener
) -> dict[str, Any]:
    """Execute all missing runs; return the records of all finished runs by digest.

    Two kinds of runs are executed last, one run at a time: runs with real processes, because the
    duration of such a run is a result, and runs on a GPU. A run that fails is reported and skipped.
    """
    unique = {run.digest: run for run in wanted}
    records = {key: found for key, run in unique.items() if (found := read_run_record(place, run))}
    for key, kept in records.items():
        listen(RunStatus(unique[key], "kept", kept["bench"]["seconds"]))
    missing = [run for key, run in unique.items() if key not in records]
    missing.sort(key=lambda run: run.seed)  # early results cover every experiment
    shared = [run for run in missing if not (run.processes or run.gpu)]
    alone = [run for run in missing if run.processes or run.gpu]
    for group, workers in ((shared, place.workers), (alone, 1)):
        records |= _at_once(group, workers, place, listen)
    return records


def read_run_record(place: RunPlace, run: PlannedRun) -> dict[str, Any] | None:
    """Return the record of a finished run; None if it is absent or incomplete."""
    path = place.folder(run) / METRICS
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if found.get("bench") else None


def _at_once(
    group: Sequence[PlannedRun], workers: int, place: RunPlace, listen: RunListener
) -> dict[str, Any]:
    children, records = _Children(), dict[str, Any]()
    with ThreadPoolExecutor(workers) as pool:
        try:
            running: dict[Future[RunStatus], PlannedRun] = {
                pool.submit(_execute, run, place, children, listen): run for run in group
            }
            for future in as_completed(running):
                status = future.result()
                listen(status)
                if status.state in ("done", "kept"):
                    records[status.run.digest] = read_run_record(place, status.run)
        except BaseException:  # in particular SIGTERM
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise
    return records


def _execute(
    run: PlannedRun, place: RunPlace, children: _Children, listen: RunListener
) -> RunStatus:
    """Execute one run and write its record; wait first if another command executes it."""
    folder = place.folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "log"
    with _locked_log(path, children, lambda: listen(RunStatus(run, "waits"))) as log:
        if children.stopped:
            return RunStatus(run, "failed", reason="stopped")
        if (found := read_run_record(place, run)) is not None:
            path.unlink(missing_ok=True)
            return RunStatus(run, "kept", found["bench"]["seconds"])
        work, began = folder / "work", monotonic()
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        log.truncate(0)
        listen(RunStatus(run, "started"))
        program = RunningCode.begin(SCOPES[TABLES[run.agreement.mode]])
        child = children.start(run_command(run, place, work), log)
        if child is None:
            return RunStatus(run, "failed", reason="stopped")
        code = child.wait()
        with children.lock:
            children.alive.discard(child)
        seconds = monotonic() - began
        made = work / run.agreement.federation / METRICS
        if code or not made.exists():
            return RunStatus(run, "failed", seconds, f"exit code {code}: {_last(path)}")
        _keep(run, made, folder / METRICS, seconds, program.provenance())
        shutil.rmtree(work)
        path.unlink()
        return RunStatus(run, "done", seconds)


@contextmanager
def _locked_log(path: Path, children: _Children, waits: Callable[[], None]) -> Iterator[IO[bytes]]:
    """Open the run's log and lock it; wait while another command holds the lock.

    The child process inherits the lock. If a command is killed and its child continues, no other
    command starts in the same folder.
    """
    with path.open("ab") as log:
        reported = False
        while not children.stopped:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not reported:
                    waits()
                reported = True
                sleep(WAIT)
        yield log


def run_command(run: PlannedRun, place: RunPlace, out: Path) -> list[str]:
    """Return the command line that starts a run."""
    command = [sys.executable, "-m", "parties.cli", "simulate", str(run.config), "--out", str(out)]
    command += ["--format", "json", "--begin", "fresh"]
    vertical = isinstance(run.agreement, VerticalAgreement)
    command += ["--in-process"] if vertical and not run.processes else []
    command += ["--data", str(place.data)] if place.data else []
    return command + [part for change in run.changes for part in ("--set", change)]


def _keep(run: PlannedRun, made: Path, path: Path, seconds: float, code: Provenance) -> None:
    """Write the record: the run's metrics, its changes, duration, provenance and date."""
    bench = {
        "run": run.title,
        "seed": run.seed,
        "changes": run.changes,
        "seconds": seconds,
        "provenance": asdict(code),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    metrics = json.loads(made.read_bytes())
    write_atomically(path, json.dumps(metrics | {"bench": bench}).encode())


def _last(log: Path) -> str:
    """Return the error of the child process, or its last line of output."""
    lines = log.read_text(errors="replace").splitlines()
    for line in reversed(lines):
        if line.startswith('{"event": "error"'):
            return str(json.loads(line)["message"])
    return lines[-1][:200] if lines else "no output"


def remaining_seconds(
    durations: dict[str, list[float]], left: Sequence[str], workers: int
) -> float | None:
    """Return the estimated seconds until all runs are done.

    ``left`` has the kind of each run that is not done yet; runs of the same kind have similar
    durations. For a kind without a known duration, the mean of all known durations is used. The
    estimate is None before the first run is done.
    """
    known = [each for made in durations.values() for each in made]
    if not known:
        return None
    mean = fmean(known)
    return sum(fmean(durations.get(kind) or [mean]) for kind in left) / workers


class BenchProgress:
    """Prints the scheduler's events; without a terminal, only failures and the end of each run."""

    def __init__(self, console: Console, wanted: Sequence[PlannedRun], workers: int) -> None:
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

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, status: RunStatus) -> None:
        """Print one event."""
        title = printable(status.run.title)
        if status.state == "waits":
            self._print(f"waits: another command executes {title}")
            return
        if status.state == "started":
            self._progress.update(self._bar, description=title)
            return
        self._left.pop(status.run.digest, None)
        if status.state == "failed":
            self.failed.append(f"{title}: {printable(status.reason)}")
            self._print(f"failed: {self.failed[-1]}")
        else:
            self._durations.setdefault(_kind(status.run), []).append(status.seconds)
        if status.state == "done" and not self._console.is_terminal:
            self._print(f"{self._all - len(self._left)}/{self._all}  {title}  {self._rest()}")
        done = self._all - len(self._left)
        self._progress.update(self._bar, completed=done, rest=self._rest())

    def _rest(self) -> str:
        seconds = remaining_seconds(self._durations, list(self._left.values()), self._workers)
        return "" if seconds is None else f"about {seconds / 60:.0f} min left"

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _kind(run: PlannedRun) -> str:
    """Return a key under which runs of similar duration are grouped."""
    return f"{run.config.stem} {run.variant} {run.processes}"
