"""Figures: wrong labels that a request corrects, against Retrains with the right labels.

Five percent of the training rows get the label of the next class before the training. The request
replaces their labels. The paired Retrain learns the right labels from the beginning. The parties
run inside one process, and send the same messages as processes do. Finished runs are kept in
``build/correction``, by the digest of the code.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from bench.ledger import Row, shown
from bench.scopes import SECTIONS
from kills import ROOT

from parties.cli.modes import SCHEMAS
from parties.experiments.provenance import Provenance
from parties.session.simulation import SimulationPlan
from parties.vertical.in_process import run_in_process

SEEDS = range(int(os.environ.get("VFL_BENCH_SEEDS", "5")))
WRONG = 0.05  # of the training rows
FEWER = "settings.{}.data.sample={{fraction=0.171429, seed=7}}"  # 12,000 rows
SETS = {
    "digits": ("digits", ()),
    "Fashion-MNIST": (
        "fashion",
        ("training.batch=128", "psi.minimum=1000",
         *(FEWER.format(party) for party in ("shop", "left", "right"))),
    ),
}  # fmt: skip
COMMON = (
    'unlearning.method="fedora"', "evaluation.permutations=19", "evaluation.completeness=false",
    "limits.checkpoint_seconds=1000.0",
)  # fmt: skip
COMPARED = ('unlearning.compare=["fine-tune", "relabel"]', "unlearning.retrains=2")
DUAL_OFF = ("unlearning.compare=[]", "unlearning.retrains=0", "unlearning.fedora.score=false")
METHODS = {
    "original": "before the request", "fedora": "FedORA", "dual off": "FedORA, dual off",
    "fine-tune": "fine-tune",
}  # fmt: skip
ROWS = {"forgotten": ("the corrected rows", 2.0), "test": ("test rows", 1.0)}  # largest loss

Report = Callable[[str], None]


def correction(data: Path, report: Report) -> Iterator[Row]:
    """Measure every data set and seed, and compare the means with those of the Retrains."""
    for name in SETS:
        found = []
        for seed in SEEDS:
            report(f"label correction: {name}, seed {seed}")
            found.append(_measured(name, seed, data))
        for method, title in METHODS.items():
            for part, (rows, limit) in ROWS.items():
                gaps = [100 * (each[method][part] - each["retrain"][part]) for each in found]
                spread = stdev(gaps) if len(gaps) > 1 else 0.0
                text = f"{mean(gaps):+.2f} ± {spread:.2f}"
                label = f"{name}: 5 % wrong labels corrected, {title}: accuracy on {rows} minus "
                wanted = f"at most {limit:g} below" if method == "fedora" else ""
                ok = mean(gaps) >= -limit if method == "fedora" else None
                unit = f"points, {len(gaps)} seeds"
                yield Row(f"{label}Retrain's", text, unit, wanted, ok)
        cost = mean(each["fedora"]["rows"] for each in found)
        yield shown(f"{name}: 5 % wrong labels corrected, FedORA: rows", cost, "of a Retrain")


def _measured(name: str, seed: int, data: Path) -> dict[str, dict[str, float]]:
    """The figures of one data set and seed; computed once."""
    digest = Provenance.here(SECTIONS["label correction"].scope).code
    stored = ROOT / "build" / "correction" / digest / f"{name} {seed}.json"
    if not stored.exists():
        folder = stored.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        found = _figures(_run(name, seed, COMPARED, folder / "compared", data))
        plain = _run(name, seed, DUAL_OFF, folder / "dual off", data)
        found["dual off"] = _methods(plain)["fedora"]["accuracy"]
        shutil.rmtree(folder)
        stored.write_text(json.dumps(found))
    content: dict[str, dict[str, float]] = json.loads(stored.read_text())
    return content


def _run(
    name: str, seed: int, changes: tuple[str, ...], folder: Path, data: Path
) -> dict[str, Any]:
    config, own = SETS[name]
    path = ROOT / "configs" / "vertical" / f"{config}.toml"
    classes = json.dumps(_classes(path))
    request = f'unlearn=[{{name="wrong", classes={classes}, fraction={WRONG}, corrects=true}}]'
    everything = (request, *COMMON, *changes, *own, f"seed={seed}")
    folder.mkdir()
    plan = SimulationPlan(path, everything, folder, data, schemas=SCHEMAS)
    return run_in_process(plan, lambda event: None)


def _classes(config: Path) -> list[str]:
    found: list[str] = tomllib.loads(config.read_text())["labels"]["classes"]
    return found


def _figures(metrics: dict[str, Any]) -> dict[str, dict[str, float]]:
    methods = _methods(metrics)
    retrains = [each for name, each in methods.items() if name.startswith("retrain")]
    figures = {name: methods[name]["accuracy"] for name in METHODS if name in methods}
    figures["retrain"] = {part: mean(each["accuracy"][part] for each in retrains) for part in ROWS}
    figures["fedora"]["rows"] = methods["fedora"]["cost"]["rows_of_retrain"]
    return figures


def _methods(metrics: dict[str, Any]) -> dict[str, Any]:
    """The methods of the request, by name."""
    return {each["name"]: each for each in metrics["requests"][0]["methods"]}
