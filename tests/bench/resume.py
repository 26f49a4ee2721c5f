"""Figures: processes killed with SIGKILL at random moments, and what the run ends with."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from kills import PARTIES, Runs, digests
from ledger import Row

KILLS = 30
PHASES = ("training", "reference", "fedora", "fine-tune", "retrain")


def resume(tell: Callable[[str], None]) -> Iterator[Row]:
    """Every party in turn is killed in training and in unlearning; the parameters are compared."""
    same = gone_on = 0
    with TemporaryDirectory() as name:
        folder = Path(name)
        runs = Runs(folder)
        wanted = runs.undisturbed(folder / "undisturbed")
        for number in range(KILLS):
            victim = list(PARTIES)[number % len(PARTIES)]
            phase = PHASES[number % len(PHASES)]
            tell(f"resume: kill {number + 1} of {KILLS}, {victim} in {phase}")
            notes = runs.killed(folder / str(number), victim, phase, Random(number))
            same += digests(folder / str(number)) == wanted
            gone_on += any(note.startswith("resumed checkpoint") for note in notes)
    title = f"resume: of {KILLS} kills -9 at random moments, runs that end bit-identical"
    yield Row(title, same, "", f"{KILLS}", same == KILLS)
    title = "resume: of these, runs that went on from a checkpoint"
    yield Row(title, gone_on, "", f"{KILLS}", gone_on == KILLS)
