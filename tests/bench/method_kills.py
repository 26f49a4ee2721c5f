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
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from kill_federations import Federation, federations
from kills import PATIENCE, ROOT
from ledger import Row
from logged_party import start_party

from parties.session.simulation import reserved_port
from protocol.keyring import issue_certificate, make_authority

sys.path.insert(0, str(ROOT / "tests"))

from structure.model_digests import model_digests

KILLS_FILE = ROOT / "docs" / "house-kills.json"
MOST_REPEATED = 1
ASIDE = ("cost", "seconds")  # parts of a method's record that a restart changes


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
        yield from kill_rows(mode, modes[mode])
    KILLS_FILE.write_text(json.dumps(modes, indent=1) + "\n")


def kill_rows(mode: str, found: Mapping[str, Any]) -> Iterator[Row]:
    """The figures of one mode, as rows."""
    methods = found["methods"]
    total, kills = len(methods), [n for each in methods for n in each["repeated"].values()]
    title = f"{mode}: unlearning methods in which the hub and another party were killed (kill -9)"
    killed = sum(len(each["repeated"]) == 2 for each in methods)
    yield Row(title, killed, "methods", f"{total}", killed == total)
    title = f"{mode}: most steps that a kill repeated, of {len(kills)} kills"
    most = max(kills, default=0)
    yield Row(title, most, "steps", f"at most {MOST_REPEATED}", most <= MOST_REPEATED)
    title = f"{mode}: methods whose results and models equal those of a run without a kill"
    equal = sum(each["equal"] for each in methods) if found["equal_models"] else 0
    yield Row(title, equal, "methods", f"{total}", equal == total)


class KilledRuns:
    """Two runs of one federation: without a kill, and with two kills in each method."""

    def __init__(
        self, federation: Federation, folder: Path, report: Callable[[str], None]
    ) -> None:
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

    def _kill(
        self, running: dict[str, BaseProcess], out: Path, port: int
    ) -> Iterator[tuple[str, str, int]]:
        """Carry out all kills; yield the method, the victim and the number of lines before it."""
        hub, spokes, place = self._federation.hub, self._federation.spokes, 0
        for number, (method, steps) in enumerate(self._federation.kills.items()):
            victims = (hub, spokes[number % len(spokes)])
            for victim, step in zip(victims, steps, strict=True):
                self._report(f"method kills, {self._federation.name}: {victim} in {step!r}")
                place = self._wait_for(step, place, running)
                running[victim].kill()
                running[victim].join()
                place = len(self._lines())
                running[victim] = self._start(victim, out, port, self._log)
                yield method, victim, place

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
        text = self._log.read_text() if self._log.exists() else ""
        parts = (line.split(" ", 1) for line in text.splitlines(keepends=True) if line[-1] == "\n")
        return [(int(around), name.rstrip("\n")) for around, name in parts]

    def _figures(
        self,
        method: str,
        kills: Sequence[tuple[str, str, int]],
        results: Sequence[Mapping[str, Any]],
    ) -> KilledMethod:
        """The figures of one method, from the steps that began before and after each kill."""
        lines = self._lines()
        outer = {one for (depth, one), (inner, _) in zip(lines, lines[1:], strict=False)
                 if inner > depth}  # fmt: skip
        names = [name for _, name in lines]
        own = {name for name in names if name not in outer and _is_step_of(name, method)}
        found = KilledMethod(method, len(own), equal=results[0][method] == results[1][method])
        ends = [*(place for *_, place in kills[1:]), len(lines)]
        for (killed, victim, place), end in zip(kills, ends, strict=True):
            if killed == method:
                before = set(names[:place]) - outer
                again = [name for name in names[place:end] if name in before]
                role = "hub" if victim == self._federation.hub else "spoke"
                found.repeated[role] = len(again)
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


def _is_step_of(name: str, method: str) -> bool:
    """Whether a step belongs to a method and is not a measurement: it has a number."""
    return name.startswith((f"{method} ", f"{method},")) and name[-1].isdigit()
