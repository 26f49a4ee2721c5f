"""Figures: a thousand simulated clients: all processes' memory, and what it grows with."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from ledger import Row, at_most, shown

from parties.horizontal.simulation.pool import SHARED_MEMORY

ROOT = Path(__file__).parents[2]
ALL, FEW, AT_ONCE, WORKERS, ROUNDS = 1000, 100, 100, 2, 3
PAUSE = 0.05  # seconds between two looks
CONFIG = """
federation = "thousand"
mode = "horizontal"
clients = {clients}
shape = [1, 28, 28]
parties = {{ server = {{ role = "server" }} }}
labels = {{ classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }}
model = {{ kind = "mlp", hidden = [400, 400] }}
partition = {{ kind = "iid" }}
training = {{ rounds = {rounds}, share = {share}, batch = 40, learning_rate = 0.05 }}
simulation = {{ workers = {workers} }}
{personal}

[settings.server]
listen = "127.0.0.1:7711"

[settings.client.data]
kind = "idx"
images = "fashion-mnist/train-images-idx3-ubyte.gz"
labels = "fashion-mnist/train-labels-idx1-ubyte.gz"
"""


def simulated(data: Path, tell: Callable[[str], None]) -> Iterator[Row]:
    """Ten per cent of a thousand clients a round, and all of a hundred; the same with own heads."""
    at_a_time = f"{AT_ONCE} a round, {WORKERS} processes"
    for title, personal in (
        ("", ""),
        (", each with a head of its own", 'personal = { kind = "fedper" }'),
    ):
        tell(f"simulated: {ALL} clients{title}")
        many = _peak(data, ALL, personal)
        tell(f"simulated: {FEW} clients{title}")
        few = _peak(data, FEW, personal)
        name = f"horizontal: {ALL} simulated clients on Fashion-MNIST{title}, {at_a_time}"
        yield at_most(f"{name}: peak memory of all processes", many.size / 2**30, 4.0, "GiB")
        yield at_most(f"{name}: their peak over that of {FEW} clients",
                      many.size / few.size, 1.1, "x")  # fmt: skip
        yield shown(f"{name}: processes, files in memory, time",
                    f"{len(many.processes)}; {many.board / 2**20:.0f} MiB; {many.seconds:.0f} s",
                    "")  # fmt: skip


@dataclass
class Peak:
    """What a run's processes took at most, in bytes.

    Every process counts with its own highest resident size, whenever that was, and pages that
    several share count at each: the true sum at any moment is smaller.
    """

    processes: dict[int, int] = field(default_factory=dict)
    board: int = 0  # files in memory that appeared since the run began
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """Of all."""
        return sum(self.processes.values()) + self.board

    def look(self, first: int, before: set[Path]) -> None:
        """Look once at a process, all that it began, and the files in memory."""
        for process in _tree(first):
            self.processes[process] = max(self.processes.get(process, 0), _highest(process))
        boards = set(SHARED_MEMORY.glob("vfl-vectors-*")) - before
        self.board = max(self.board, sum(_size(each) for each in boards))


def _peak(data: Path, clients: int, personal: str) -> Peak:
    peak, began = Peak(), monotonic()
    with TemporaryDirectory() as name:
        path, out = Path(name) / "thousand.toml", Path(name) / "runs"
        text = CONFIG.format(
            clients=clients, share=AT_ONCE / clients, workers=WORKERS, rounds=ROUNDS,
            personal=personal,
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
        with (Path(name) / "said").open("w") as said:
            run = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=ROOT)
            while run.poll() is None:
                peak.look(run.pid, before)
                sleep(PAUSE)
        if run.returncode:
            raise RuntimeError((Path(name) / "said").read_text()[-2000:])
        metrics = json.loads((out / "thousand" / "metrics.json").read_text())
        if len(metrics["training"]["rounds"]) != ROUNDS:
            raise RuntimeError("not all rounds were run")
    peak.seconds = monotonic() - began
    return peak


def _tree(first: int) -> list[int]:
    """A process and all that it began, and they."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # ended meanwhile
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found, look = list[int](), [first]
    while look:
        found.append(look.pop())
        look += children.get(found[-1], [])
    return found


def _highest(process: int) -> int:
    """Its highest resident size so far, in bytes; 0 once it has ended."""
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
        except OSError:  # gone meanwhile
            continue
    return total
