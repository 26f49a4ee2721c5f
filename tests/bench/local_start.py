"""Figures: a training with a local start, beside joint training to the same accuracy.

Joint training is given as many epochs as it needs to come within 0.3 points of the accuracy of the
local start on validation rows. Both trainings then run between real processes, over a link with
40 ms from a question to its answer. Their time begins after the alignment of the rows, which both
need, and ends with the predictions for the test rows. Retrain with a local start is also measured
with CNN bottoms.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from bench.delayed_link import delayed_link
from bench.ledger import Row, at_least, at_most, shown
from bench.pairs import alternate, paired_ratio

from parties.cli.modes import SCHEMAS
from parties.report import METRICS
from parties.session.simulation import (
    PartyProcess,
    SimulationPlan,
    reserved_port,
    simulate_processes,
)
from protocol.keyring import issue_certificate, make_authority

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs" / "vertical"
Report = Callable[[str], None]
ONE_WAY = 0.02  # seconds
TRAINING = "training"  # the phase in the events of the active party
WITHIN = 0.003  # of the accuracy
LOCAL = ('training.start="local"',)
PAIRS = 2  # of runs over the delayed link


@dataclass(frozen=True, slots=True)
class Federation:
    """A shipped config whose training is measured."""

    name: str
    config: str
    roles: dict[str, str]


FEDERATIONS = (
    Federation("Adult", "income", {"bank": "active", "employer": "passive", "registry": "passive"}),
    Federation(
        "Fashion-MNIST", "fashion", {"shop": "active", "left": "passive", "right": "passive"}
    ),
)
# MNIST in place of Fashion-MNIST, 6,000 training rows, CNN bottoms, half of the widths.
_FILES = {"labels": "labels-idx1-ubyte.gz", "images": "images-idx3-ubyte.gz"}
CNN = (
    *(
        f'settings.{party}.data.{prefix}{key}="mnist/{part}-{_FILES[key]}"'
        for party, key in (("shop", "labels"), ("left", "images"), ("right", "images"))
        for prefix, part in (("", "train"), ("test_", "t10k"))
    ),
    *(
        f"settings.{party}.data.sample={{fraction=0.111, seed=1}}"
        for party in ("shop", "left", "right")
    ),
    *(
        f'parties.{party}={{role="passive", width=16, bottom={{kind="cnn", channels=[8, 16]}}}}'
        for party in ("left", "right")
    ),
    "top.hidden=[32]", "training.batch=64", "psi.minimum=1000",
    'unlearn=[{name="tenth-of-two-digits", classes=["dress", "bag"], fraction=0.1}]',  # 3, 8
    'unlearning.method="retrain-local"', "seed=0",
    'unlearning.compare=["fine-tune", "relabel", "short-retrain"]',
)  # fmt: skip


def local_start(data: Path, report: Report) -> Iterator[Row]:
    """Measure round trips, bytes and time over a link of 40 ms, and CNN bottoms on MNIST."""
    yield from _cnn_bottoms(data, report)
    for federation in FEDERATIONS:
        report(f"{federation.name}: joint training")
        joint = _near(federation, data, ())
        report(f"{federation.name}: local start")
        yield from _compared(federation, joint, _near(federation, data, LOCAL), data, report)


def _cnn_bottoms(data: Path, report: Report) -> Iterator[Row]:
    """Retrain with a local start beside Retrain, with CNN bottoms."""
    report("MNIST with CNN bottoms: Retrain with a local start")
    (request,) = _run("fashion", data, CNN)["requests"]
    found = {each["name"]: each for each in request["methods"]}
    name = "MNIST, CNN bottoms, retrain-local"
    retrain = found["retrain"]["accuracy"]["test"]
    reached = found["retrain-local"]
    yield at_least(f"{name}: test accuracy", reached["accuracy"]["test"], retrain - 0.01, "")
    yield at_most(f"{name}: rows over Retrain's", reached["cost"]["rows_of_retrain"], 0.11, "")


def _compared(
    federation: Federation,
    joint: dict[str, Any],
    local: dict[str, Any],
    data: Path,
    report: Report,
) -> Iterator[Row]:
    name = f"{federation.name}, local start"
    reached = [each["validation_accuracy"] for each in local["training"]["steps"]][-1]
    every = [each["validation_accuracy"] for each in joint["training"]["steps"]]
    near = [number for number, each in enumerate(every, 1) if each >= reached - WITHIN]
    accuracy = local["run"]["test_accuracy"]
    whole = joint["run"]["test_accuracy"]
    yield at_least(f"{name}: test accuracy", accuracy, whole - 0.01, "")
    if not near:
        yield shown(f"{name}: joint training never comes near", max(every), "")
        return
    epochs = near[0]
    yield shown(f"{name}: epochs of joint training to the same accuracy", epochs, "")
    slow, fast = list[FarRun](), list[FarRun]()

    def run(runs: list[FarRun], changes: Sequence[str]) -> float:
        runs.append(_far(federation, data, changes))
        return runs[-1].seconds

    measures = {
        "joint": partial(run, slow, (f"training.epochs={epochs}",)),
        "local": partial(run, fast, LOCAL),
    }
    report(f"{name}: both over a link of 40 ms")
    seconds = alternate(measures, PAIRS, report)
    trips = fast[0].round_trips / slow[0].round_trips
    yield at_most(f"{name}: round trips over joint training's", trips, 0.2, "")
    yield shown(f"{name}: round trips", fast[0].round_trips, "")
    yield shown(f"{name}: bytes over joint training's", fast[0].size / slow[0].size, "")
    ratio = paired_ratio(seconds["local"], seconds["joint"])
    yield at_most(f"{name}: time over joint training's, link of 40 ms", ratio, 0.25, "")
    yield shown(f"{name}: time, link of 40 ms", median(seconds["local"]), "s")
    whole_run = paired_ratio([each.run for each in fast], [each.run for each in slow])
    yield shown(f"{name}: time of the whole run over joint training's", whole_run, "")


def _settings(changes: Sequence[str]) -> tuple[str, ...]:
    return ("unlearn=[]", "seed=0", *changes)


def _near(federation: Federation, data: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Train on this machine without delays; return the metrics."""
    return _run(federation.config, data, _settings(changes))


def _run(config: str, data: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Run a shipped config with changes on this machine; return the metrics."""
    with TemporaryDirectory() as folder:
        path = CONFIGS / f"{config}.toml"
        plan = SimulationPlan(path, tuple(changes), Path(folder), data, schemas=SCHEMAS)
        return simulate_processes(plan, lambda _: None)


@dataclass(frozen=True, slots=True)
class FarRun:
    """A run over the delayed link, as the active party sees it."""

    seconds: float  # time of the training
    run: float  # time of the whole run
    # Questions to one passive party that were answered; a gradient without a question counts half.
    round_trips: float
    size: int  # bytes of all messages but those of the alignment


def _far(federation: Federation, data: Path, changes: Sequence[str]) -> FarRun:
    """Run with a delayed link between every passive party and the active party."""
    with TemporaryDirectory() as name, reserved_port() as port, delayed_link(port, ONE_WAY) as link:
        folder = Path(name)
        make_authority(folder / "certs", federation.config)
        for party in federation.roles:
            issue_certificate(folder / "certs", federation.config, party)
        running = []
        for party, role in federation.roles.items():
            hub = port if role == "active" else link
            command = ["--role", role, "--party", party, "--format", "json"]
            command += ["--config", str(CONFIGS / f"{federation.config}.toml")]
            command += ["--out", str(folder / "runs"), "--data", str(data)]
            command += ["--certificates", str(folder / "certs"), "--hub", f"127.0.0.1:{hub}"]
            for change in _settings(changes):
                command += ["--set", change]
            running.append(PartyProcess(command, ROOT))
        with ThreadPoolExecutor(len(running)) as pool:  # a full pipe would stop its party
            ends = list(pool.map(_events, running))
        for each, events in zip(running, ends, strict=True):
            if each.wait():
                raise RuntimeError(f"a party of {federation.name} failed: {events[-1]}")
        active = list(federation.roles.values()).index("active")
        trained = [each for each in map(json.loads, ends[active]) if each.get("phase") == TRAINING]
        (path,) = (folder / "runs").rglob(METRICS)
        metrics: dict[str, Any] = json.loads(path.read_text())
        counted = [each for each in metrics["traffic"] if each["phase"] != "psi"]
        messages = sum(each["messages"] for each in counted)
        return FarRun(
            seconds=trained[-1]["seconds"],
            run=metrics["run"]["seconds"],
            round_trips=messages / 2 / (len(federation.roles) - 1),
            size=sum(each["bytes"] for each in counted),
        )


def _events(process: PartyProcess) -> list[str]:
    """Read the output of a party until it ends; return its last lines."""
    with process.stdout as events:
        return list(deque(events, maxlen=10_000))
