"""Figures: memory of all processes with up to a thousand simulated clients, and its growth."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from bench.ledger import Row, at_most, shown

from parties.horizontal.simulation.pool import SHARED_MEMORY

ROOT = Path(__file__).parents[2]
ALL, FEW, AT_ONCE, WORKERS, ROUNDS = 1000, 100, 100, 2, 3
A_ROUND = (10, 1000)  # clients in a round, of 1000 clients
WIDE = (1000, 1200)  # widths of hidden layers with which an update has 7.6 MiB
BACKENDS = {"processes": "processes", "ray": "Ray on this machine"}
PAUSE = 0.05  # seconds between two measurements
CONFIG = """
federation = "thousand"
mode = "horizontal"
clients = {clients}
shape = [1, 28, 28]
parties = {{ server = {{ role = "server" }} }}
labels = {{ classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }}
model = {{ kind = "mlp", hidden = {hidden} }}
partition = {{ kind = "iid" }}
training = {{ rounds = {rounds}, share = {share}, batch = 40, learning_rate = 0.05 }}
simulation = {{ backend = "{backend}", workers = {workers} }}
{personal}

[settings.server]
listen = "127.0.0.1:7711"

[settings.client.data]
kind = "idx"
images = "fashion-mnist/train-images-idx3-ubyte.gz"
labels = "fashion-mnist/train-labels-idx1-ubyte.gz"
"""


def simulated(data: Path, report: Callable[[str], None]) -> Iterator[Row]:
    """Compare 100 of 1000 clients per round with 100 of 100, also with personal heads."""
    at_a_time = f"{AT_ONCE} a round, {WORKERS} processes"
    for title, personal in (
        ("", ""),
        (", each with a head of its own", 'personal = { kind = "fedper" }'),
    ):
        report(f"simulated: {ALL} clients{title}")
        many = _peak(data, RunPlan(ALL, personal=personal))
        report(f"simulated: {FEW} clients{title}")
        few = _peak(data, RunPlan(FEW, personal=personal))
        name = f"horizontal: {ALL} simulated clients on Fashion-MNIST{title}, {at_a_time}"
        yield at_most(f"{name}: peak memory of all processes", many.size / 2**30, 4.0, "GiB")
        yield at_most(f"{name}: their peak over that of {FEW} clients",
                      many.size / few.size, 1.1, "x")  # fmt: skip
        yield shown(f"{name}: processes, files in memory, time",
                    f"{len(many.processes)}; {many.shared / 2**20:.0f} MiB; {many.seconds:.0f} s",
                    "")  # fmt: skip


def clients_a_round(data: Path, report: Callable[[str], None]) -> Iterator[Row]:
    """Compare a round of 10 with a round of 1000 of 1000 clients, with processes and with Ray."""
    for backend, title in BACKENDS.items():
        name = f"1000 simulated clients, updates of 7.6 MiB, {WORKERS} workers, {title}"
        peaks = dict[int, Peak]()
        for count in A_ROUND:
            report(f"clients a round: {count}, {title}")
            peaks[count] = _peak(data, RunPlan(ALL, count, 1, WIDE, backend))
            yield shown(f"{name}: peak memory of all processes, {count} clients a round",
                        peaks[count].size / 2**20, "MiB")  # fmt: skip
        few, many = A_ROUND
        yield at_most(f"{name}: peak memory, {many} clients a round over {few}",
                      peaks[many].size / peaks[few].size, 1.5, "x")  # fmt: skip


@dataclass(frozen=True)
class RunPlan:
    """A simulation: numbers of all clients, of clients in a round and of rounds, and settings."""

    clients: int
    at_once: int = AT_ONCE
    rounds: int = ROUNDS
    hidden: tuple[int, ...] = (400, 400)
    backend: str = "processes"
    personal: str = ""


@dataclass
class Peak:
    """Peak memory of the processes of a run in bytes.

    It is the sum of the peak resident sizes of all processes. Shared pages count several times, so
    the true peak is smaller.
    """

    processes: dict[int, int] = field(default_factory=dict)
    shared: int = 0  # files in memory that appeared since the run began
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """Return the sum over all processes and files in memory."""
        return sum(self.processes.values()) + self.shared

    def measure(self, first: int, before: set[Path]) -> None:
        """Measure a process, its descendants and the files in memory once."""
        for process in _tree(first):
            self.processes[process] = max(self.processes.get(process, 0), _peak_size(process))
        files = set(SHARED_MEMORY.glob("vfl-vectors-*")) - before
        self.shared = max(self.shared, sum(_size(each) for each in files))


def _peak(data: Path, plan: RunPlan) -> Peak:
    peak, started = Peak(), monotonic()
    with TemporaryDirectory() as name:
        path, out = Path(name) / "thousand.toml", Path(name) / "runs"
        text = CONFIG.format(
            clients=plan.clients, share=plan.at_once / plan.clients, workers=WORKERS,
            rounds=plan.rounds, hidden=[*plan.hidden], backend=plan.backend, personal=plan.personal,
        )  # fmt: skip
        path.write_text(text)
        command = [
            sys.executable,
            "-c",
            "from parties.cli.main import simulate_main; simulate_main()",
        ]
        command += [str(path)]
        command += ["--data", str(data), "--out", str(out), "--format", "json"]
        before = set(SHARED_MEMORY.glob("vfl-vectors-*"))
        with (Path(name) / "output").open("w") as output:
            run = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
            while run.poll() is None:
                peak.measure(run.pid, before)
                sleep(PAUSE)
        if run.returncode:
            raise RuntimeError((Path(name) / "output").read_text()[-2000:])
        metrics = json.loads((out / "thousand" / "metrics.json").read_text())
        if len(metrics["training"]["steps"]) != plan.rounds:
            raise RuntimeError("not all rounds were run")
    peak.seconds = monotonic() - started
    return peak


def _tree(first: int) -> list[int]:
    """Return a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # ended meanwhile
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    processes, pending = list[int](), [first]
    while pending:
        processes.append(pending.pop())
        pending += children.get(processes[-1], [])
    return processes


def _peak_size(process: int) -> int:
    """Return the peak resident size of a process in bytes; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return 1024 * int(status.split("VmHWM:")[1].split()[0]) if "VmHWM:" in status else 0


def _size(folder: Path) -> int:
    total = 0
    for path in folder.glob("*"):
        try:
            total += path.stat().st_size
        except OSError:  # deleted meanwhile
            continue
    return total
