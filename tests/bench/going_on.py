"""Figures: trainings that go on from a kept version, against trainings from the beginning.

For each data set and seed: a party leaves, a party joins, and 3 % of the rows are new. Each is
carried out with ``--from newest``, and compared with a training of all epochs on the same rows and
parties. *Cost* is the payload of embeddings and gradients, over that of the training from the
beginning. The parties run inside one process, and send the same messages as processes do.

Where a party joins digits or credit, some rows are not common any more, because the new party lacks
them: then the parties start from new weights.

In the credit data the columns of the passive party are split over two passive parties, so that one
can leave. Finished parts are kept in ``build/going-on``, by the digest of the code.
"""

import json
import os
import shutil
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import tomlkit
from bench.ledger import Row, at_most, shown
from bench.scopes import SECTIONS
from kills import ROOT

from parties.cli.modes import SCHEMAS
from parties.experiments.provenance import Provenance
from parties.session.setup import NEWEST
from parties.session.simulation import SimulationPlan
from parties.vertical.in_process import run_in_process

SEEDS = range(int(os.environ.get("VFL_BENCH_SEEDS", "5")))
SETS = {"digits": ("digits", "right"), "Adult": ("income", "registry"),
        "credit": ("credit", "bureau")}  # config, and the party that leaves or joins  # fmt: skip
SHARE_BEFORE = 0.97  # of the rows, in the training before 3 % are new
POINT = 1.0  # largest difference of the mean accuracy, in points
LEAVING, JOINING = 0.25, 0.5  # largest costs

Report = Callable[[str], None]
Plan = dict[str, Any]


def going_on(data: Path, report: Report) -> Iterator[Row]:
    """Measure every data set and seed, and compare the means."""
    for name, (config, party) in SETS.items():
        found = []
        for seed in SEEDS:
            report(f"going on: {name}, seed {seed}")
            found.append(_measured(Trainings(name, config, party, data), seed))
        titles = {"leaves": "a passive party leaves", "joins": "a party joins", "rows": "new rows"}
        limits = {"leaves": LEAVING, "joins": JOINING, "rows": None}
        for event, title in titles.items():
            yield from _rows(f"{name}: {title}", [each[event] for each in found], limits[event])


def _measured(trainings: "Trainings", seed: int) -> dict[str, dict[str, float]]:
    """The figures of one data set and seed; computed once."""
    digest = Provenance.here(SECTIONS["going on"].scope).code
    stored = ROOT / "build" / "going-on" / digest / f"{trainings.name} {seed}.json"
    if not stored.exists():
        stored.parent.mkdir(parents=True, exist_ok=True)
        folder = stored.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        content = json.dumps(trainings.compare(seed, folder))
        shutil.rmtree(folder)
        stored.write_text(content)
    found: dict[str, dict[str, float]] = json.loads(stored.read_text())
    return found


def _rows(title: str, found: list[dict[str, float]], limit: float | None) -> Iterator[Row]:
    gaps = [100 * (each["accuracy"] - each["again"]) for each in found]
    spread = stdev(gaps) if len(gaps) > 1 else 0.0
    name = f"{title}: test accuracy minus that of a training from the beginning"
    worse = max(0.0, -mean(gaps))
    yield Row(name, f"{mean(gaps):+.2f} ± {spread:.2f}", f"points, {len(gaps)} seeds",
              f"at most {POINT:g} below", worse <= POINT)  # fmt: skip
    cost = mean(each["cost"] for each in found)
    kind = shown if limit is None else lambda *words: at_most(words[0], words[1], limit, words[2])
    yield kind(f"{title}: cost", cost, "of a training from the beginning")


class Trainings:
    """The trainings of one data set.

    Attributes:
        name: name of the data set.
    """

    def __init__(self, name: str, config: str, party: str, data: Path) -> None:
        """Read the shipped ``config``; ``party`` leaves or joins."""
        self.name, self._party, self._data = name, party, data
        path = ROOT / "configs" / "vertical" / f"{config}.toml"
        self._whole = tomllib.loads(path.read_text())
        self._whole["unlearn"] = []
        if config == "credit":
            _split_columns(self._whole)

    def compare(self, seed: int, folder: Path) -> dict[str, dict[str, float]]:
        """Train, go on, and train from the beginning."""
        whole, part = self._whole, _without(self._whole, self._party)
        few = _fewer_rows(whole)
        runs = {name: folder / name for name in ("whole", "part", "few")}
        with_all = self._run(whole, seed, runs["whole"])
        without = self._run(part, seed, runs["part"])
        self._run(few, seed, runs["few"])
        events = {
            "leaves": (self._run(part, seed, runs["whole"], NEWEST), without),
            "joins": (self._run(whole, seed, runs["part"], NEWEST), with_all),
            "rows": (self._run(whole, seed, runs["few"], NEWEST), with_all),
        }
        return {event: _figures(*both) for event, both in events.items()}

    def _run(self, plan: Plan, seed: int, folder: Path, continues: str = "") -> dict[str, Any]:
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "config.toml"
        config.write_text(tomlkit.dumps({**plan, "seed": seed}))
        where = (config, (), folder, self._data)
        return run_in_process(
            SimulationPlan(*where, schemas=SCHEMAS, continues=continues), lambda event: None
        )


def _figures(reached: dict[str, Any], again: dict[str, Any]) -> dict[str, float]:
    return {
        "accuracy": reached["run"]["test_accuracy"],
        "again": again["run"]["test_accuracy"],
        "cost": _payload(reached) / _payload(again),
    }


def _payload(metrics: dict[str, Any]) -> int:
    phases = {each["phase"]: each["payload"] for each in metrics["traffic"]}
    total: int = phases["forward"] + phases["backward"]
    return total


def _without(plan: Plan, party: str) -> Plan:
    found = deepcopy(plan)
    del found["parties"][party], found["settings"][party]
    return found


def _fewer_rows(plan: Plan) -> Plan:
    """The same with fewer rows at every party; the rows that are left out are new later."""
    found = deepcopy(plan)
    for each in found["settings"].values():
        sample = each["data"].get("sample", {"fraction": 1.0, "seed": 1})
        share = round(sample["fraction"] * SHARE_BEFORE, 6)
        each["data"]["sample"] = {**sample, "fraction": share}
    return found


def _split_columns(plan: Plan) -> None:
    """Give the second half of the columns of host to a third party."""
    columns = [f"x{number}" for number in range(10)]
    parties, settings = plan["parties"], plan["settings"]
    parties["bureau"], settings["bureau"] = deepcopy(parties["host"]), deepcopy(settings["host"])
    settings["host"]["data"]["numeric"] = columns[:5]
    settings["bureau"]["data"]["numeric"] = columns[5:]
    settings["bureau"]["data"]["sample"] = {"fraction": 0.9, "seed": 3}
