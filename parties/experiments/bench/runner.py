"""The scheduler: every run in a process of its own, several at a time, finished ones kept."""

import fcntl
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import IO, Any, Literal, TypeAlias

from configs.agreement import Agreement
from parties.common.atomic_file import write
from parties.experiments.bench.plan import Run, sources
from parties.report import METRICS

PATIENCE = 20.0  # seconds that a child has for ending in order
WAIT = 1.0  # seconds between two looks at a run that another command makes
State: TypeAlias = Literal["kept", "waits", "started", "done", "failed"]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a run; one that waits is held by another command."""

    run: Run
    state: State
    seconds: float = 0.0
    reason: str = ""  # of a failure


Listener: TypeAlias = Callable[[Told], None]


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where runs are made."""

    out: Path
    data: Path | None
    workers: int = 1

    def folder(self, run: Run) -> Path:
        """The run's own folder."""
        return self.out / run.digest


@dataclass(slots=True)
class _Children:
    """The processes under way; once stopped, none begins."""

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


def execute(wanted: Iterable[Run], place: Workplace, listen: Listener) -> dict[str, Any]:
    """Make every run that is not there yet; the records of all that are there, by digest.

    Runs of real processes come last and one at a time, since their time is a figure, and so do
    those that fill a GPU. A run that fails is told and left out; the others go on.
    """
    unique = {run.digest: run for run in wanted}
    records = {key: found for key, run in unique.items() if (found := record(place, run))}
    for key, kept in records.items():
        listen(Told(unique[key], "kept", kept["bench"]["seconds"]))
    missing = [run for key, run in unique.items() if key not in records]
    missing.sort(key=lambda run: run.seed)  # what is there early says a little of everything
    shared = [run for run in missing if not (run.processes or run.gpu)]
    alone = [run for run in missing if run.processes or run.gpu]
    for group, workers in ((shared, place.workers), (alone, 1)):
        records |= _at_once(group, workers, place, listen)
    return records


def record(place: Workplace, run: Run) -> dict[str, Any] | None:
    """What an earlier start left of a run; None if that is not whole."""
    path = place.folder(run) / METRICS
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if "bench" in found else None


def _at_once(
    group: Sequence[Run], workers: int, place: Workplace, listen: Listener
) -> dict[str, Any]:
    children, made = _Children(), dict[str, Any]()
    with ThreadPoolExecutor(workers) as pool:
        try:
            running: dict[Future[Told], Run] = {
                pool.submit(_make, run, place, children, listen): run for run in group
            }
            for future in as_completed(running):
                told = future.result()
                listen(told)
                if told.state in ("done", "kept"):
                    made[told.run.digest] = record(place, told.run)
        except BaseException:  # told to stop, above all
            pool.shutdown(wait=False, cancel_futures=True)
            children.stop()
            raise
    return made


def _make(run: Run, place: Workplace, children: _Children, listen: Listener) -> Told:
    """One run, from an empty working folder to its record, unless another command makes it."""
    folder = place.folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "log"
    with _held(path, children, lambda: listen(Told(run, "waits"))) as log:
        if children.stopped:
            return Told(run, "failed", reason="stopped")
        if (found := record(place, run)) is not None:
            path.unlink(missing_ok=True)
            return Told(run, "kept", found["bench"]["seconds"])
        work, began = folder / "work", monotonic()
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        log.truncate(0)
        listen(Told(run, "started"))
        child = children.start(command(run, place, work), log)
        if child is None:
            return Told(run, "failed", reason="stopped")
        code = child.wait()
        with children.lock:
            children.alive.discard(child)
        seconds = monotonic() - began
        made = work / run.agreement.federation / METRICS
        if code or not made.exists():
            return Told(run, "failed", seconds, f"exit code {code}: {_last(path)}")
        _keep(run, made, folder / METRICS, seconds)
        shutil.rmtree(work)
        path.unlink()
        return Told(run, "done", seconds)


@contextmanager
def _held(path: Path, children: _Children, say: Callable[[], None]) -> Iterator[IO[bytes]]:
    """The run's log, which one command holds at a time; others wait here, until they are stopped.

    The child writes to it and so holds it, too: where a command was killed and its child goes on,
    nobody else begins in its folder.
    """
    with path.open("ab") as log:
        said = False
        while not children.stopped:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    say()
                said = True
                sleep(WAIT)
        yield log


def command(run: Run, place: Workplace, out: Path) -> list[str]:
    """What a child is started with; a person may type the same."""
    said = [sys.executable, "-m", "parties.experiments.bench", str(run.config), "--out", str(out)]
    said += ["--format", "json", "--begin", "fresh"]
    vertical = isinstance(run.agreement, Agreement)
    said += ["--in-process"] if vertical and not run.processes else []
    said += ["--data", str(place.data)] if place.data else []
    return said + [part for change in run.changes for part in ("--set", change)]


def _keep(run: Run, made: Path, path: Path, seconds: float) -> None:
    """Write the record: the run's metrics, and what they were made by."""
    bench = {
        "run": run.title,
        "seed": run.seed,
        "changes": run.changes,
        "seconds": seconds,
        "sources": sources(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    metrics = json.loads(made.read_bytes())
    write(path, json.dumps(metrics | {"bench": bench}).encode())


def _last(log: Path) -> str:
    """The error that the child told, or its last line."""
    lines = log.read_text(errors="replace").splitlines()
    for line in reversed(lines):
        if line.startswith('{"event": "error"'):
            return str(json.loads(line)["message"])
    return lines[-1][:200] if lines else "it said nothing"
