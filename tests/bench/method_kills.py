"""Figures: parties killed with SIGKILL in the middle of every unlearning method, and the results.

``python tests/bench "method kills"`` runs a few small federations of each mode, as processes with
mutual TLS: once undisturbed, and once with two kills in each method, of the hub (active party or
server) and of another party. A kill lands at the beginning of a step, which the hub writes to a
file (``logged_party``); a step that begins a second time after the kill is a repeated step. The
figures go to ``docs/house-kills.json``, from which ``make house`` takes its rows.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from bench.ledger import Row
from kill_federations import Federation, federations
from kills import PATIENCE, ROOT
from logged_party import start_party, tasks_of

from parties.session.simulation import reserved_port
from protocol.keyring import issue_certificate, make_authority

sys.path.insert(0, str(ROOT / "tests"))

from structure.model_digests import model_digests
from structure.rows import KILLS, mode_kill_rows

ASIDE = ("cost", "seconds")  # parts of a method's record that a restart changes


@dataclass(frozen=True)
class Kill:
    """A kill: the method, the party, and the numbers of steps and of tasks that began before it."""

    method: str
    victim: str
    steps: int
    tasks: int


@dataclass
class KilledMethod:
    """The figures of one method.

    Attributes:
        method: name of the method.
        steps: number of different steps that began.
        repeated: for each kill, the number of steps that began again after the kill.
        equal: whether the results equal those of the run without a kill.
    """

    method: str
    steps: int = 0
    repeated: dict[str, int] = field(default_factory=dict)
    equal: bool = False


def method_kills(report: Callable[[str], None]) -> Iterator[Row]:
    """Kill the hub and another party in the middle of every method of every mode."""
    modes: dict[str, Any] = {}
    for mode, parts in federations().items():
        methods, models = list[KilledMethod](), list[bool]()
        for each in parts:
            with TemporaryDirectory() as folder:
                found, same = KilledRuns(each(Path(folder)), Path(folder), report).measure()
            methods, models = [*methods, *found], [*models, same]
        modes[mode] = {"equal_models": all(models), "methods": [asdict(each) for each in methods]}
        for row in mode_kill_rows(mode, modes[mode]):
            yield Row(**asdict(row))
    (ROOT / KILLS).write_text(json.dumps(modes, indent=1) + "\n")


class KilledRuns:
    """Two runs of one federation: without a kill, and with two kills in each method."""

    def __init__(self, federation: Federation, folder: Path, report: Callable[[str], None]) -> None:
        self._federation, self._folder, self._report = federation, folder, report
        self._keys, self._log = folder / "certs", folder / "steps.log"
        make_authority(self._keys, federation.name)
        for name in federation.roles:
            issue_certificate(self._keys, federation.name, name)

    def measure(self) -> tuple[list[KilledMethod], bool]:
        """Run both; return the figures of each method, and whether the models are equal."""
        whole, broken = self._folder / "undisturbed", self._folder / "killed"
        self._report(f"method kills, {self._federation.name}: undisturbed")
        with self._all(whole, None) as (running, _):
            self._finish(running)
        with self._all(broken, self._log) as (running, port):
            kills = list(self._kill(running, broken, port))
            self._finish(running)
        results = [self._results(each) for each in (whole, broken)]
        methods = [self._figures(name, kills, results) for name in self._federation.kills]
        for each in methods:
            self._report(f"{self._federation.name}: {each}")
        digests = [model_digests(each / self._federation.name) for each in (whole, broken)]
        return methods, digests[0] == digests[1] != {}

    def _kill(self, running: dict[str, BaseProcess], out: Path, port: int) -> Iterator[Kill]:
        """Carry out all kills, one after the other."""
        hub, spokes, place = self._federation.hub, self._federation.spokes, 0
        for number, (method, steps) in enumerate(self._federation.kills.items()):
            victims = (hub, spokes[number % len(spokes)])
            for victim, step in zip(victims, steps, strict=True):
                self._report(f"method kills, {self._federation.name}: {victim} in {step!r}")
                place = self._wait_for(step, place, running)
                if victim != hub:
                    self._wait_for_task(victim)
                running[victim].kill()
                running[victim].join()
                place, tasks = len(self._lines()), len(_read_lines(tasks_of(self._log)))
                running[victim] = self._start(victim, out, port, self._log)
                yield Kill(method, victim, place, tasks)

    def _wait_for(self, step: str, place: int, running: Mapping[str, BaseProcess]) -> int:
        """Wait until ``step`` begins after the line number ``place``; return its line number."""
        deadline = monotonic() + PATIENCE
        while True:
            lines = self._lines()
            found = [n for n, (_, name) in enumerate(lines) if n >= place and name == step]
            if found:
                return found[0]
            failed = {name for name, each in running.items() if each.exitcode}
            late = monotonic() > deadline or not running[self._federation.hub].is_alive()
            assert not failed, f"{step}: {failed} failed: {self._notes()}"
            assert not late, f"{step} never began; steps: {[name for _, name in lines]}"
            sleep(0.002)

    def _wait_for_task(self, client: str) -> None:
        """Wait until the client begins its next task, if it has one in the present step."""
        step, done = len(self._lines()), len(self._tasks(client))
        deadline = monotonic() + PATIENCE
        while len(self._lines()) == step and len(self._tasks(client)) == done:
            assert monotonic() < deadline, f"{client} has no task: {self._notes()}"
            sleep(0.001)

    def _tasks(self, client: str) -> list[tuple[int, str]]:
        """The place and name of each task that a client began so far, among all tasks."""
        lines = enumerate(_read_lines(tasks_of(self._log)))
        return [(place, name) for place, (_, name) in lines if name.startswith(f"{client}: ")]

    def _finish(self, running: Mapping[str, BaseProcess]) -> None:
        """Wait until all processes end; check that each exit code is 0."""
        for name, each in running.items():
            each.join(PATIENCE)
            assert each.exitcode == 0, f"{name} ended with {each.exitcode}: {self._notes()}"

    def _notes(self) -> str:
        """The notes, warnings and errors of all parties."""
        lines = [line for each in sorted(self._folder.glob("*.jsonl")) for line in each.open()]
        return "".join(line for line in lines if '"progress"' not in line)[-6000:]

    def _lines(self) -> list[tuple[int, str]]:
        """The steps that began so far: the number of steps around each step, and its name."""
        return _read_lines(self._log)

    def _figures(
        self, method: str, kills: Sequence[Kill], results: Sequence[Mapping[str, Any]]
    ) -> KilledMethod:
        """The figures of one method, from the steps that began before and after each kill."""
        steps = _without_outer(self._lines())
        own = {name for _, name in steps if _is_step_of(name, method)}
        found = KilledMethod(method, len(own), equal=results[0][method] == results[1][method])
        end = Kill("", "", sys.maxsize, sys.maxsize)
        for kill, following in zip(kills, [*kills[1:], end], strict=True):
            if kill.method == method:
                again = _repeated(steps, kill.steps, following.steps)
                if kill.victim == self._federation.hub:
                    found.repeated["hub"] = again
                else:  # its own tasks: the hub repeats no step if a client repeats its task
                    tasks = self._tasks(kill.victim)
                    again = max(again, _repeated(tasks, kill.tasks, following.tasks))
                    found.repeated["spoke"] = again
        return found

    def _start(self, name: str, out: Path, port: int, log: Path | None) -> BaseProcess:
        """Start one party's process."""
        federation = self._federation
        arguments = ["--role", federation.roles[name], "--party", name, "--format", "json"]
        arguments += ["--config", str(federation.config), "--out", str(out)]
        arguments += ["--certificates", str(self._keys), "--hub", f"127.0.0.1:{port}"]
        for change in federation.settings:
            arguments += ["--set", change]
        return start_party(arguments, self._folder / f"{out.name} {name}.jsonl", log)

    @contextmanager
    def _all(self, out: Path, log: Path | None) -> Iterator[tuple[dict[str, BaseProcess], int]]:
        """Start all parties; kill those that still run at the end."""
        with reserved_port() as port:
            names = self._federation.roles
            running = {name: self._start(name, out, port, log) for name in names}
            try:
                yield running, port
            finally:
                for each in running.values():
                    each.kill()
                    each.join()

    def _results(self, out: Path) -> dict[str, str]:
        """The results of each method as JSON, without the cost."""
        metrics = json.loads((out / self._federation.name / "metrics.json").read_text())
        methods = metrics["requests"][0]["methods"]
        return {
            each["name"]: json.dumps({key: each[key] for key in each if key not in ASIDE})
            for each in methods
        }


def _read_lines(path: Path) -> list[tuple[int, str]]:
    """The complete lines of a file: a number, and a name."""
    text = path.read_text() if path.exists() else ""
    parts = (line.split(" ", 1) for line in text.splitlines(keepends=True) if line[-1] == "\n")
    return [(int(around), name.rstrip("\n")) for around, name in parts]


def _without_outer(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The place and name of each step that contains no other step."""
    pairs = pairwise(lines)
    outer = {name for (around, name), (inner, _) in pairs if inner > around}
    return [(place, name) for place, (_, name) in enumerate(lines) if name not in outer]


def _repeated(steps: Sequence[tuple[int, str]], kill: int, end: int) -> int:
    """How many steps with places from ``kill`` to ``end`` began before ``kill`` too."""
    before = {name for place, name in steps if place < kill}
    return sum(kill <= place < end and name in before for place, name in steps)


def _is_step_of(name: str, method: str) -> bool:
    """Whether a step belongs to a method and is not a measurement: it has a number."""
    return name.startswith((f"{method} ", f"{method},")) and name[-1].isdigit()
