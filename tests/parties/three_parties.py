"""Three parties inside a test: real certificates, real PSI and memory lines."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import torch

from configs.config_file import ConfigFile, validate_table
from parties.common.errors import abort_reason
from parties.data.party_settings import VerticalPartySettings
from parties.session import handshake
from parties.session.handshake import CheckpointOffer
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.party import VerticalParty
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.methods.registry import AGREEMENT, SCHEMA
from parties.vertical.passive import PassiveSession
from parties.vertical.resume import party_checkpoints, start_party_state, start_split_model
from parties.vertical.setup import set_up_party
from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.keyring import issue_certificate, make_authority

PARTIES = ("hub", "left", "right")
STATISTICS = "public.json"
# FedORA as it is printed: from the original, plain steps that follow the change of the parameters.
PAPER: dict[str, Any] = {
    "policy": "uniform",  # no evaluation sets γ
    "start": "original",
    "primal": "plain",
    "anneal": False,
    "adaptive": {},
    "calibrate": False,
}


# Of the columns of ``write_data`` and of the tables of ``other_labels``.
RANGES = {name: [-4, 8] for name in "xyz"}
RANGES |= {f"x{at}": [-4, 400] for at in range(10)} | {"label": [25, 346]}
LONG = {"learning_rate": 0.01, "batch": 16, "epochs": 5}  # a training of more epochs
LIMITS = {
    "join_seconds": 20.0,
    "step_seconds": 10.0,
    "idle_seconds": 60.0,  # a metric is slow on a loaded machine
    "rejoin_seconds": 0.0,
    "checkpoint_seconds": 0.0,
}


def agreement(**changes: Any) -> dict[str, Any]:
    """A small agreement of three parties with features; ``changes`` replace whole tables."""
    return {
        "federation": "trio",
        "seed": 5,
        "dtype": "float64",
        "parties": {
            "hub": {"role": "active", "width": 3, "bottom": {"kind": "mlp", "hidden": [5]}},
            "left": {"role": "passive", "width": 4, "bottom": {"kind": "mlp", "hidden": [6]}},
            "right": {"role": "passive", "width": 2, "bottom": {"kind": "mlp", "hidden": []}},
        },
        "labels": {"classes": ["a", "b", "c"]},
        "psi": {"minimum": 10},
        "training": {"learning_rate": 0.01, "batch": 16, "epochs": 2},
        "limits": LIMITS,
        **changes,
    }


def write_data(folder: Path, rows: int = 240) -> None:
    """Write three tables that share some of their IDs, in different orders."""
    generator = np.random.default_rng(3)
    label = generator.integers(0, 3, rows)
    for number, name in enumerate(PARTIES):
        values = generator.normal(size=(rows, 3)) + label[:, None] * (number + 1) / 2
        chosen = generator.permutation(rows)[: rows - 10 * number]
        lines = ["id,x,y,z" + (",label" if name == "hub" else "")]
        for row in chosen:
            cells = [f"p{row}", *(f"{value:.6f}" for value in values[row])]
            lines.append(",".join([*cells, *(["abc"[label[row]]] if name == "hub" else [])]))
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def party_settings(folder: Path, requests: Iterable[str] = ()) -> dict[str, VerticalPartySettings]:
    """Party settings for the files of ``write_data``; each of ``requests`` has an ID file."""
    plan = {name: {"kind": "csv", "path": f"{name}.csv"} for name in PARTIES}
    for data in plan.values():
        data["id"] = {"columns": ["id"]}  # type: ignore[assignment]
        data["ranges"] = RANGES  # type: ignore[assignment]
    plan["hub"]["label"] = _label(folder / "hub.csv")
    for name in PARTIES:
        for key, column in (("time", "date"), ("weight", "weight")):
            if column in _header(folder / f"{name}.csv"):
                plan[name][key] = column
    apart = {"statistics": str(folder / STATISTICS)} if (folder / STATISTICS).exists() else {}
    files = {"hub": {name: str(folder / f"{name}.txt") for name in requests}}
    return {
        name: validate_table(
            VerticalPartySettings,
            {
                "folder": str(folder),
                "data": data,
                "unlearn": files.get(name, {}),
                **(apart if name != "hub" else {}),
            },
            folder,
            "",
        )
        for name, data in plan.items()
    }


def _label(table: Path) -> str | tuple[str, ...]:
    """The label column ``label``, or the columns of several binary labels: label-a, label-b."""
    several = tuple(name for name in _header(table) if name.startswith("label-"))
    return several or "label"


def _header(table: Path) -> list[str]:
    return table.read_text().splitlines()[0].split(",") if table.exists() else []


def public_statistics(folder: Path) -> None:
    """Write preprocessing statistics, which the settings of the passive parties then name."""
    numeric = [{"column": name, "median": 0, "mean": 0.5, "scale": 2} for name in "xyz"]
    statistics = {"numeric": numeric, "categorical": [], "image": None}
    (folder / STATISTICS).write_text(json.dumps(statistics))


def party(
    folder: Path,
    name: str,
    plan: Mapping[str, Any],
    events: list[Any],
    requests: Iterable[str] = (),
    **options: Any,
) -> VerticalParty:
    """One party, set up; ``options`` are options of the start."""
    read = validate_table(AGREEMENT, dict(plan), folder, "")
    config = ConfigFile(folder / "trio.toml", SCHEMA, read, party_settings(folder, requests))
    place = StartOptions(folder / "runs", folder, folder / "certs", **options)
    return set_up_party(config, name, place, events.append)


def certify(folder: Path) -> None:
    """Create the certificates of all parties."""
    make_authority(folder / "certs", "trio")
    for name in PARTIES:
        issue_certificate(folder / "certs", "trio", name)


@contextmanager
def open_split_model(
    folder: Path,
    rows: int = 240,
    write: Callable[[Path, int], None] | None = None,
    **changes: Any,
) -> Iterator[tuple[SplitModel, dict[str, PassiveSession]]]:
    """The active party's split model, and the passive parties' sessions.

    ``write`` writes the tables into the folder.
    """
    (write or write_data)(folder, rows)
    certify(folder)
    agreed = {"unlearn": [{"name": "some"}], **changes}
    solved = changes.get("training", {}).get("optimiser") == "newton-cg"
    unlearning = {"fedora": {"start": "original"}} if solved else {}
    if "task" not in changes.get("labels", {}):  # other labels compare no methods
        agreed["unlearning"] = _compared(changes.get("unlearning", unlearning))
    plan, port = agreement(**agreed), MemoryPort()
    sessions: dict[str, PassiveSession] = {}

    def answer(name: str) -> None:
        us = party(folder, name, plan, [])
        channel = handshake.join_hub(us, lambda: port.connect(name), CheckpointOffer(), 20.0)
        try:
            sessions[name] = PassiveSession(
                us,
                channel,
                party_checkpoints(us),
                partial(start_party_state, us, channel, party_checkpoints(us)),
            )
            while sessions[name].handle(channel.receive(20.0)):
                pass
        except ProtocolError as error:
            channel.abort(*abort_reason(error))  # the test may have ended already

    threads = [Thread(target=answer, args=(name,), daemon=True) for name in ("left", "right")]
    for thread in threads:
        thread.start()
    us = party(folder, "hub", plan, [])
    hub, offers = handshake.accept_spokes(us, port, 20.0)
    split_model = start_split_model(us, hub, offers)
    try:
        yield split_model, sessions
    finally:
        hub.abort("test", "over")
        hub.close()
        for thread in threads:
            thread.join(10)


def _compared(unlearning: Mapping[str, Any]) -> dict[str, Any]:
    """The table [unlearning], which also compares the methods that it has settings of."""
    default = AGREEMENT.model_fields["unlearning"].default.compare
    tables = {"cvfu": "cvfu", "scrub": "scrub", "retrain_local": "retrain-local"}
    named = tuple(method for table, method in tables.items() if table in unlearning)
    return {"compare": [*default, *named], **unlearning}


def networks(
    split_model: SplitModel, sessions: Mapping[str, PassiveSession]
) -> dict[str, torch.nn.Module]:
    """Every party's network."""
    local_models = {name: each.state.local_model for name, each in sessions.items()} | {
        "hub": split_model.local_model
    }
    return {name: local_model.model.network for name, local_model in local_models.items()}


def inputs(
    split_model: SplitModel, sessions: Mapping[str, PassiveSession]
) -> dict[str, torch.Tensor]:
    """Every party's features of the common rows."""
    local_models = {name: each.state.local_model for name, each in sessions.items()} | {
        "hub": split_model.local_model
    }
    return {name: local_model.model.inputs.values for name, local_model in local_models.items()}  # type: ignore[union-attr]


def now() -> datetime:
    """The clock."""
    return datetime.now(UTC)


def start_training(
    split_model: SplitModel, stream: str, rows: vfl_pb2.Rows = vfl_pb2.TRAIN_ROWS
) -> None:
    """Initialise a model that the agreed optimiser trains; fit the preprocessing on ``rows``."""
    training = split_model.agreement.training
    rule = UpdateRule.like_training(training, training.learning_rate)
    split_model.initialise(stream, rows, vfl_pb2.TRAIN, rule=rule)


def forget_some(split_model: SplitModel, count: int = 20) -> None:
    """Request the first rows of D."""
    split_model.forget(np.sort(split_model.rows.train[:count]))


TRAIN, UNLEARN = vfl_pb2.TRAIN, vfl_pb2.UNLEARN
