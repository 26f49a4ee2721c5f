"""Figures: parties killed with SIGKILL in the middle of every unlearning method, and the results.

``python tests/bench "method kills"`` runs the vertical demo with all its methods, and the
horizontal digits with all of theirs: once undisturbed, and once with two kills in each method.
"""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

from kills import Running, Runs, digests, finish, wait_for, wait_for_note
from ledger import Row

from parties.vertical.methods.registry import BASELINES

METHODS_KILLED = ("fedora", *(each.name for each in BASELINES if each.name != "cvfu"))
LONG = (
    "unlearning.retrains=2", "unlearning.fedora.iterations=20", "limits.checkpoint_seconds=0.0",
    "training.epochs=5", "training.patience=5",
    "unlearning.fine_tune.epochs=20", "unlearning.relabel.epochs=15",
    "unlearning.top_only.epochs=200", "unlearning.shrink_perturb.epochs=20",
    "unlearning.gradient_ascent={steps=60, learning_rate=0.0001}", "unlearning.ico_like.steps=600",
    "unlearning.scrub.epochs=10",
    f"unlearning.compare={json.dumps(METHODS_KILLED[1:])}",
)  # fmt: skip
ASIDE = ("cost", "seconds")  # parts of a method's record that a restart changes


def method_kills(report: Callable[[str], None]) -> Iterator[Row]:
    """Kill the active party and a passive party in the middle of every vertical method."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        runs = Runs(folder, LONG)
        report("method kills: undisturbed")
        with runs.all(folder / "undisturbed") as (running, _):
            finish(running)
        killed = _killed(runs, folder / "killed", report)
        equal = digests(folder / "killed") == digests(folder / "undisturbed")
        results = [_results(folder / each) for each in ("undisturbed", "killed")]
        same = [name for name in METHODS_KILLED if results[0][name] == results[1][name]]
    title = "vertical: methods in which the active and a passive party were killed with kill -9"
    yield Row(title, killed, "", f"{len(METHODS_KILLED)}", killed == len(METHODS_KILLED))
    title = "vertical: of these methods, those whose results equal those of a run without a kill"
    wanted = len(METHODS_KILLED)
    yield Row(title, len(same), "", f"{wanted}", len(same) == wanted and equal)


def _killed(runs: Runs, out: Path, report: Callable[[str], None]) -> int:
    """Kill a party twice in each method; return the number of methods that went on."""
    random, killed = Random(0), 0
    with runs.all(out) as (running, port):
        for number, method in enumerate(METHODS_KILLED):
            for victim in ("office", ("left", "right")[number % 2]):
                report(f"method kills: {victim} in {method}")
                wait_for(running["office"], method)
                sleep(random.uniform(0.0, 0.4))
                running[victim].process.send_signal(signal.SIGKILL)
                running[victim].process.wait()
                running[victim] = runs.start(victim, out, port)
                wait_for_note(running[victim], "resumed checkpoint")
            killed += _went_on(running["office"], method)
        finish(running)
    return killed


def _went_on(active: Running, method: str) -> bool:
    """Whether the method continued after its recorded steps instead of starting again."""
    return any(note.startswith(f"{method}: continuing after") for note in active.notes)


def _results(out: Path) -> dict[str, Any]:
    """The results of each method, without the cost."""
    metrics = json.loads((out / "digits" / "metrics.json").read_text())
    methods = metrics["requests"][0]["methods"]
    return {
        each["name"]: {key: value for key, value in each.items() if key not in ASIDE}
        for each in methods
    }
