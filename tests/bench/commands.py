"""Figures: duration of the demo and of ``--help``."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.ledger import Row, at_most

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def commands(report: Callable[[str], None]) -> Iterator[Row]:
    """Measure the demo and the help text."""
    report("the demo")
    with TemporaryDirectory() as folder:
        config = ROOT / "configs" / "vertical" / "digits.toml"
        seconds = _time([str(BIN / "vfl"), "simulate", str(config), "--out", folder])
    yield at_most("demo, once installed", seconds, 60, "s")
    helped = min(_time([str(BIN / "vfl-party"), "--help"]) for _ in range(3))
    yield at_most("vfl-party --help", helped, 1, "s")


def _time(command: list[str]) -> float:
    started = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started
