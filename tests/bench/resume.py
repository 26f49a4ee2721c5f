"""Figures: processes killed with SIGKILL at random moments, and the final parameters."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from bench.ledger import Row
from kills import PARTIES, Runs, digests

KILLS = 30
PHASES = ("training", "reference", "fedora", "fine-tune", "retrain")


def resume(report: Callable[[str], None]) -> Iterator[Row]:
    """Kill each party in training and in unlearning, and compare the final parameters."""
    identical = resumed = 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        runs = Runs(folder)
        expected = runs.run_uninterrupted(folder / "undisturbed")
        for number in range(KILLS):
            victim = list(PARTIES)[number % len(PARTIES)]
            phase = PHASES[number % len(PHASES)]
            report(f"resume: kill {number + 1} of {KILLS}, {victim} in {phase}")
            notes = runs.killed(folder / str(number), victim, phase, Random(number))
            identical += digests(folder / str(number)) == expected
            resumed += any(note.startswith("resumed checkpoint") for note in notes)
    title = f"resume: of {KILLS} kills -9 at random moments, runs that end bit-identical"
    yield Row(title, identical, "", f"{KILLS}", identical == KILLS)
    title = "resume: of these, runs that went on from a checkpoint"
    yield Row(title, resumed, "", f"{KILLS}", resumed == KILLS)
