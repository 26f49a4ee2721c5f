"""A hub that sends a wrong order over gRPC with TLS: the spoke's process names it, with code 6."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from client_processes import SERVER, ClientProcesses
from hostile_hub import admit, digest_of, place, send_anything
from test_bad_vertical_orders import (
    PLAN,
    TRAINED,
    Order,
    forget,
    initialise,
    passive_party,
    states,  # noqa: F401  a fixture
    wire_rule,
)
from three_parties import agreement, party, party_settings

from parties.horizontal.engine.wire import SentTask
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.run_party import listen_for_clients
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.setup import StartOptions
from parties.session.simulation import reserved_port
from parties.vertical.run_party import open_line_server
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.dataclass_codec import encode
from protocol.errors import Aborted
from protocol.message import Body

ROOT = Path(__file__).parents[3]
WAIT = 90.0  # seconds; a process starts slowly on a loaded machine
ORDERS = {
    "rows that wrap around": (forget(1, -(2**63), -1, 2), "invalid list of row indices"),
    "another learning rate": (initialise(rule=wire_rule(learning_rate=9.0)), "the settings of the"),
}
TASKS: dict[str, tuple[Body, str]] = {
    "another aim": (
        encode(
            SentTask("learn", (), LocalTask(stream="x", aim="ascent", batch=16, learning_rate=0.1)),
            pb.RunTask,
        ),
        "legal aims: fit",
    ),
    "a purge": (pb.Purge(), "it selected no request"),
}


def toml(value: Any) -> str:
    """A value in TOML, in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {toml(part)}" for name, part in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def write_config(folder: Path) -> Path:
    """The agreement of the three parties, and the settings of the passive party, as files."""
    lines = [f"{name} = {toml(value)}" for name, value in agreement(**PLAN).items()]
    (folder / "trio.toml").write_text("\n".join(lines) + "\n")
    settings = party_settings(folder)["left"].model_dump(mode="json", exclude_unset=True)
    data = {key: each for key, each in settings["data"].items() if each is not None}
    (folder / "left.party.toml").write_text(f"data = {toml(data)}\n")
    return folder / "trio.toml"


def require_refusal(hub: Channel, output: str, code: int, cause: str) -> None:
    with pytest.raises(Aborted, match=hub.terms.me):
        hub.receive(WAIT)
    event = next(each for each in map(json.loads, output.splitlines()) if each["event"] == "error")
    assert code == event["exit"] == 6
    assert event["message"].startswith(f"{hub.terms.me}: ")
    assert cause in event["message"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERS)
def test_passive_process_names_the_hub(states: Path, name: str) -> None:  # noqa: F811
    (order, cause), us = ORDERS[name], passive_party(states, TRAINED)
    hub_party = party(states, "hub", agreement(**PLAN), [])
    with reserved_port() as port:
        address = f"127.0.0.1:{port}"
        command = [sys.executable, "-m", "parties", "--role", "passive", "--party", "left"]
        command += ["--config", str(write_config(states)), "--out", str(states / "runs")]
        command += ["--certificates", str(states / "certs"), "--hub", address, "--format", "json"]
        with (
            open_line_server(hub_party, address) as server,
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process,
        ):
            hub, offer = admit(hub_party, server.accept(WAIT))
            hub.place = place(pb.CHECKPOINT)
            hub.send(pb.Resume(checkpoint=max(offer.numbers)))
            hub.receive(WAIT).expect(pb.Resumed)
            before = digest_of({}, {}, us.state / "checkpoints")
            _send(hub, order)
            output, _ = process.communicate(timeout=WAIT)
            require_refusal(hub, output, process.returncode, cause)
    assert digest_of({}, {}, us.state / "checkpoints") == before


def _send(hub: Channel, order: Order) -> None:
    hub.place = place(order.task)
    send_anything(hub, order.body, *order.tensors)


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_client_process_names_the_server(tmp_path: Path, name: str) -> None:
    body, cause = TASKS[name]
    settings = "training = { rounds = 1, batch = 16, learning_rate = 0.1 }"
    wood = ClientProcesses(tmp_path, settings, ("ash", "elm"))
    options = StartOptions(wood.out, None, wood.keys)
    server = set_up_horizontal_party(wood.config, SERVER, options, lambda _: None)
    command = [sys.executable, "-m", "parties", "--role", "client", "--party", "ash"]
    command += ["--config", str(wood.path), "--out", str(wood.out), "--format", "json"]
    command += ["--certificates", str(wood.keys), "--hub", wood.address]
    with (
        listen_for_clients(server, wood.address) as port,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process,
    ):
        hub, _ = admit(server, port.accept(WAIT))
        hub.place = place(pb.ROUND)
        send_anything(hub, body)
        output, _ = process.communicate(timeout=WAIT)
        require_refusal(hub, output, process.returncode, cause)
