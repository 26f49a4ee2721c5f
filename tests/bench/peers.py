"""Figures: the intersection beside SecretFlow's C++ (spu, protocol RR22, semi-honest).

Each program runs as two processes on this machine, over loopback, alternately with the other
program. Both read the same CSV files with one column, ``id``; half of the IDs are common. At the
end each party has a CSV file of the common IDs, in an order that is the same at both parties.

Counted on both sides: reading the file, hashing, the protocol, ordering the common rows, writing
the file. Counted on neither: the start of the processes, imports, and connecting (with this
project: also TLS and the greeting). This project uses mutual TLS and checks that IDs are unique;
spu uses plain TCP and is told that they are, which makes it faster. spu's other settings are its
defaults. Its sender learns the common IDs, too (``broadcast_result``), as here.

spu only takes files. What its log calls the stage ``Online`` is the protocol without reading,
sorting and writing. The phase ``psi`` here has the protocol, and also hashing and ordering.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psi_process
from bench.ledger import Row, at_most, shown
from bench.pairs import PairedRatio, alternate, paired_ratio

from parties.experiments.provenance import ROOT
from parties.session.simulation import reserved_port

HERE = Path(__file__).parent
SPU = ROOT / ".venv-peers" / "bin" / "python"  # installed by ``make bench-peers``
NAMES = psi_process.names(2)
SIZES = (("1e5", 100_000, 5, 0.95), ("1e6", 1_000_000, 3, 0.9))  # IDs a party, pairs, limit
FIGURES = '{"event": "figures"'  # the line of a process with its figures
STAGE = re.compile(r"\[(\S+ \S+)\] \[info\] .*::Online\] (start|end)")  # of spu's log
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Run:
    """One intersection from files to files; times in seconds, memory in bytes."""

    seconds: float  # of all that is counted
    protocol: float  # without files: the phase ``psi``, or spu's stage ``Online``
    memory: int  # peak resident memory of the larger process


def peers(report: Report) -> Iterator[Row]:
    """Compare time and memory with those of spu."""
    for size, count, pairs, limit in SIZES:
        report(f"peers: {size} IDs")
        with TemporaryDirectory(prefix="vfl-peers-") as name:
            folder = Path(name)
            _prepare(folder, count)
            runs: dict[str, list[Run]] = {"vfl": [], "spu": []}
            measures = {
                "vfl": partial(_measured, runs["vfl"], partial(_vfl, folder), count),
                "spu": partial(_measured, runs["spu"], partial(_spu, folder), count),
            }
            alternate(measures, pairs, lambda text: report(f"peers: {text}"), warm_up=1)
        yield from _rows(size, runs["vfl"][1:], runs["spu"][1:], limit)


def _prepare(folder: Path, count: int) -> None:
    """Write certificates and the IDs of both parties."""
    psi_process.certify(folder, len(NAMES))
    for number, name in enumerate(NAMES):
        ids = psi_process.people(number, count)
        (folder / f"{name}.csv").write_bytes(b"\n".join([b"id", *ids, b""]))


def _measured(runs: list[Run], work: Callable[[], Run], count: int) -> float:
    runs.append(work())
    return runs[-1].seconds


def _rows(size: str, ours: Sequence[Run], theirs: Sequence[Run], limit: float) -> Iterator[Row]:
    name = f"PSI: {size} IDs, 2 processes"

    def ratio(part: Callable[[Run], float]) -> PairedRatio:
        return paired_ratio([part(each) for each in ours], [part(each) for each in theirs])

    yield at_most(f"{name}, file to file, time over that of spu RR22",
                  ratio(lambda run: run.seconds), limit, "")  # fmt: skip
    yield shown(f"{name}, phase psi over spu's stage Online alone",
                ratio(lambda run: run.protocol), "")  # fmt: skip
    yield shown(f"{name}, peak memory of a party over that of spu RR22",
                ratio(lambda run: run.memory), "")  # fmt: skip
    for program, runs in (("vfl", ours), ("spu RR22", theirs)):
        values = (median(each.seconds for each in runs), median(each.protocol for each in runs),
                  max(each.memory for each in runs) / 1e9)  # fmt: skip
        text = "{:.2f} s file to file, {:.2f} s protocol, {:.2f} GB peak".format(*values)
        yield shown(f"{name}, file to file: {program}", text, "")


def _vfl(folder: Path) -> Run:
    with reserved_port() as port:
        commands = [
            [sys.executable, str(HERE / "csv_process.py"), str(folder), name, str(port)]
            for name in NAMES
        ]
        figures = [each for each, _ in _finished(folder, commands)]
    parts = ("reading", "seconds", "writing")
    reading, protocol, writing = (max(each[part] for each in figures) for part in parts)
    return Run(reading + protocol + writing, protocol, max(each["rss"] for each in figures))


def _spu(folder: Path) -> Run:
    with ExitStack() as stack:
        ports = [str(stack.enter_context(reserved_port())) for _ in NAMES]
        commands = [
            [str(SPU), str(HERE / "spu_process.py"), str(folder), name, str(rank), *ports]
            for rank, name in enumerate(NAMES)
        ]
        found = _finished(folder, commands)
    figures = [each for each, _ in found]
    seconds = max(each["seconds"] for each in figures)
    return Run(
        seconds,
        max(_online_seconds(log) for _, log in found),
        max(each["rss"] for each in figures),
    )


def _finished(folder: Path, commands: Sequence[list[str]]) -> list[tuple[dict[str, Any], str]]:
    """Run the two processes of one program, and return their figures and output.

    Raises:
        RuntimeError: a process failed, or the two parties have different common IDs.
    """

    def run(command: list[str]) -> tuple[dict[str, Any], str]:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(FIGURES)]
        if not lines:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")
        return json.loads(lines[-1]), done.stdout

    for name in NAMES:
        (folder / f"{name}-common.csv").unlink(missing_ok=True)
    with ThreadPoolExecutor(len(commands)) as pool:
        found = list(pool.map(run, commands))
    one, other = ((folder / f"{name}-common.csv").read_bytes() for name in NAMES)
    rows = (folder / f"{NAMES[0]}.csv").read_bytes().count(b"\n") - 1
    if one != other or one.count(b"\n") - 1 != rows // 2:
        raise RuntimeError(f"the intersection failed: {[figures for figures, _ in found]}")
    return found


def _online_seconds(log: str) -> float:
    times = {edge: datetime.strptime(at, "%Y-%m-%d %H:%M:%S.%f") for at, edge in STAGE.findall(log)}
    return (times["end"] - times["start"]).total_seconds()
