"""Figures: a training with a local start, beside joint training to the same accuracy.

Joint training is given as many epochs as it needs to come within 0.3 points of the accuracy of the
local start on validation rows. Both trainings then run between real processes, over a link with
40 ms from a question to its answer. Retrain with a local start is also measured with CNN bottoms.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.delayed_link import delayed_link
from bench.ledger import Row, at_least, at_most, shown

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
WITHIN = 0.003  # of the accuracy
LOCAL = ('training.start="local"',)
# Only local fits and one pass of embeddings; then a few joint steps.
VARIANTS = {
    "local start": LOCAL,
    "local start without joint epochs": (*LOCAL, "training.local.joint_epochs=0.0"),
}


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
        for variant, changes in VARIANTS.items():
            report(f"{federation.name}: {variant}")
            local = _near(federation, data, changes)
            yield from _compared(federation, variant, changes, joint, local, data, report)


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
    variant: str,
    changes: Sequence[str],
    joint: dict[str, Any],
    local: dict[str, Any],
    data: Path,
    report: Report,
) -> Iterator[Row]:
    name = f"{federation.name}, {variant}"
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
    report(f"{name}: both over a link of 40 ms")
    slow = _far(federation, data, (f"training.epochs={epochs}",))
    fast = _far(federation, data, changes)
    trips = _round_trips(fast, federation) / _round_trips(slow, federation)
    yield at_most(f"{name}: round trips over joint training's", trips, 0.2, "")
    sent = _size(fast) / _size(slow)
    yield shown(f"{name}: bytes over joint training's", sent, "")
    seconds = fast["run"]["seconds"] / slow["run"]["seconds"]
    yield at_most(f"{name}: time over joint training's, link of 40 ms", seconds, 0.25, "")


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


def _far(federation: Federation, data: Path, changes: Sequence[str]) -> dict[str, Any]:
    """Run with a delayed link between every passive party and the active party."""
    with TemporaryDirectory() as name, reserved_port() as port, delayed_link(port, ONE_WAY) as link:
        folder = Path(name)
        make_authority(folder / "certs", federation.config)
        for party in federation.roles:
            issue_certificate(folder / "certs", federation.config, party)
        running = []
        for party, role in federation.roles.items():
            own = port if role == "active" else link
            command = ["--role", role, "--party", party, "--format", "json"]
            command += ["--config", str(CONFIGS / f"{federation.config}.toml")]
            command += ["--out", str(folder / "runs"), "--data", str(data)]
            command += ["--certificates", str(folder / "certs"), "--hub", f"127.0.0.1:{own}"]
            for change in _settings(changes):
                command += ["--set", change]
            running.append(PartyProcess(command, ROOT))
        with ThreadPoolExecutor(len(running)) as pool:  # a full pipe would stop its party
            ends = list(pool.map(_last_event, running))
        for each, last in zip(running, ends, strict=True):
            if each.wait():
                raise RuntimeError(f"a party of {federation.name} failed: {last}")
        (path,) = (folder / "runs").rglob(METRICS)
        metrics: dict[str, Any] = json.loads(path.read_text())
        return metrics


def _last_event(process: PartyProcess) -> str:
    """Read the output of a party until it ends; return the last line."""
    with process.stdout as events:
        return deque(events, maxlen=1).pop()


def _round_trips(metrics: dict[str, Any], federation: Federation) -> float:
    """Questions of the active party to one passive party that were answered."""
    passive = len(federation.roles) - 1
    counted = [each for each in metrics["traffic"] if each["phase"] in ("forward", "control")]
    return sum(each["messages"] for each in counted) / 2 / passive


def _size(metrics: dict[str, Any]) -> float:
    return sum(each["bytes"] for each in metrics["traffic"] if each["phase"] != "psi")
