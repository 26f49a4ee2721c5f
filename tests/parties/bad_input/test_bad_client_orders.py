"""Wrong orders of a server: a real client refuses each one and changes nothing."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeAlias, cast

import numpy as np
import pytest
import torch
from hostile_hub import Spoke, admit_from, digest_of, place, send_anything, start_spoke

from configs.config_file import FederatedConfig, read_config, validate_table
from parties.common.errors import abort_reason, exit_code
from parties.horizontal.client import ClientConversation
from parties.horizontal.client_store import ClientStore
from parties.horizontal.engine.wire import DELIVERED, SentTask
from parties.horizontal.local.local_task import LocalTask, TextTask
from parties.horizontal.local.networks import initial_parameters
from parties.horizontal.party import FederatedParty
from parties.horizontal.registry import AGREEMENT, SCHEMA, network_local_tasks
from parties.horizontal.setup import set_up_horizontal_party
from parties.language.setup import set_up_language_party
from parties.session import handshake
from parties.session.handshake import NO_CHECKPOINTS
from parties.session.memory_port import MemoryPort
from parties.session.setup import StartOptions
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.dataclass_codec import encode
from protocol.errors import Aborted, LineBroken, RemoteProtocolError
from protocol.keyring import issue_certificate, make_authority
from protocol.message import Body
from protocol.tensors import Tensor
from tests.parties.language.ferries import prepare_federation

CLIENT = "client-1"
CONFIG = """
federation = "wards"
mode = "horizontal"
clients = 5
shape = [1, 8, 8]
labels = { classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }
parties = { server = { role = "server" } }
model = { kind = "mlp", hidden = [16] }
training = { rounds = 3, batch = 16, learning_rate = 0.1 }
unlearn = [{ name = "half", client = "client-1", fraction = 0.5 }]
unlearning = { method = "fedosd", compare = ["mode"] }

[settings.server]
listen = "127.0.0.1:7709"

[settings.client]
data = { kind = "sklearn", name = "digits", label = true }
"""
RUN = "a" * 32
Sent = tuple[Body, tuple[Tensor, ...]]
World: TypeAlias = tuple[FederatedConfig, StartOptions]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A message that is wrong, a part of the error, and whether vectors are loaded before it."""

    cause: str
    message: Callable[[int], Sent]  # the size of the model -> the message
    loaded: bool = True


def message(body: Body, *tensors: Tensor) -> Callable[[int], Sent]:
    return lambda _size: (body, tensors)


def local_task(aim: str = "fit", **changes: Any) -> LocalTask:
    """A task of the agreement with an aim, then changed."""
    agreement = read_agreement()
    found = next(each for each in network_local_tasks(agreement) if each.aim == aim)
    return replace(found, **changes)


@cache
def read_agreement() -> Any:
    table = tomllib.loads(CONFIG)
    del table["settings"]
    return validate_table(AGREEMENT, table, Path(), "")


def run_task(task: LocalTask, rows: Any = "learn", *slots: str) -> Callable[[int], Sent]:
    return message(encode(SentTask(rows, slots, task), pb.RunTask))


def edited(**numbers: float) -> Callable[[int], Sent]:
    """A legal task, whose numbers are changed on the way."""
    body = encode(SentTask("learn", (), local_task()), pb.RunTask)
    for name, value in numbers.items():
        setattr(body.task, name, value)
    return message(body)


def load(slot: str = "model", start: int = 0, extra: int = 0) -> Callable[[int], Sent]:
    def made(size: int) -> Sent:
        body = pb.LoadVector(slot=slot, start=start, size=size + extra)
        return body, (np.zeros(size + extra, np.float32),)

    return made


def branch(name: str) -> Body:
    return pb.SwitchBranch(branch=name)


DIFFERS = "differs from every task of the agreement"
EVALUATE = pb.EvaluateRows(rows=pb.TEST, parameters=pb.EvaluateRows.SENT)
ORDERS = {
    "an aim that is not agreed": Wrong(
        "legal aims: fit, pseudo-labels, unlearning-loss", run_task(LocalTask(
            aim="ascent", stream="x", batch=16, learning_rate=0.1), "forgotten"),
    ),
    "a report of personal parameters": Wrong(
        DIFFERS, run_task(replace(local_task(), aim="personal-model"))
    ),
    "another learning rate": Wrong(
        "nearest one in learning_rate", run_task(local_task(learning_rate=0.2))
    ),
    "more epochs": Wrong("nearest one in epochs", run_task(local_task(epochs=100))),
    "batches of one row": Wrong("nearest one in batch", run_task(local_task(batch=1))),
    "another temperature": Wrong(
        "nearest one in temperature", run_task(local_task(temperature=9.0))
    ),
    "a momentum that is no number": Wrong("task.momentum (legal: ", edited(momentum=nan)),
    "an infinite bound of gradients": Wrong("task.clip (legal: above 0, finite", edited(clip=inf)),
    "no epoch": Wrong("task.epochs (legal: at least 1", edited(epochs=0)),
    "ascent on rows that stay": Wrong(
        "expected forgotten rows", run_task(local_task("unlearning-loss"), "retained")
    ),
    "a teacher that was not named": Wrong(
        "expected teacher", run_task(local_task("pseudo-labels"), "forgotten")
    ),
    "a teacher that was not sent": Wrong(
        "needs the vector 'teacher'", run_task(local_task("pseudo-labels"), "forgotten", "teacher")
    ),
    "rows of no request": Wrong(
        "has no forgotten rows", run_task(local_task("unlearning-loss"), "forgotten")
    ),
    "a task without a model": Wrong(
        "needs the vector 'model'", run_task(local_task()), loaded=False
    ),
    "an evaluation without a model": Wrong(
        "needs the vector 'model'", message(EVALUATE), loaded=False
    ),
    "an unknown vector": Wrong("expected one of model, delivered", load("secret")),
    "a model of another size": Wrong("expected", load(extra=1)),
    "a part out of order": Wrong("out of order", load(start=5)),
    "an unknown request": Wrong("not in the agreement", message(pb.SelectRequest(request="all"))),
    "a purge without a request": Wrong("it selected no request", message(pb.Purge())),
    "a branch of no run": Wrong("32 hexadecimal digits", message(branch("../../x"))),
    "a sum that is not agreed": Wrong(
        "no secure aggregation",
        message(pb.StartSum(members=[CLIENT], threshold=1, context=bytes(32))),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def wards(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("wards")
    (folder / "wards.toml").write_text(CONFIG)
    config = read_config(folder / "wards.toml", SCHEMA)
    make_authority(folder / "certs", "wards")
    for name in (config.agreement.hub, *config.agreement.spokes):
        issue_certificate(folder / "certs", "wards", name)
    return config, StartOptions(folder / "runs", None, folder / "certs")


def set_up(world: World, name: str) -> FederatedParty:
    config, options = world
    set_up_party: Any = (
        set_up_horizontal_party if config.agreement.mode == "horizontal" else set_up_language_party
    )
    return cast(FederatedParty, set_up_party(config, name, options, lambda _: None))


def digest(conversation: Any, us: FederatedParty) -> str:
    """A digest of everything that an order may change."""
    conversation = cast(ClientConversation, conversation)
    store = conversation._store
    task: Any = store._task
    values = {
        "run": store._run, "request": store._request, "purged": store._purged,
        "branch": task.branch, "branches": list(task.branches), "slots": list(conversation._slots),
    }  # fmt: skip
    branches = [each for each in (*task.branches.values(), task.personal) if each is not None]
    tensors = {"branches": branches, "slots": conversation._slots.values()}
    if us.agreement.mode == "horizontal":
        data = task.client_data
        tensors["rows"] = [data.train.inputs, data.train.labels]
        tensors["marks"] = [torch.from_numpy(data.forgotten), torch.from_numpy(data.planted)]
        tensors["network"] = task.network.parameters()
    else:
        values["texts"] = [each.ids for each in task.dataset.rows]
        tensors["marks"] = [torch.from_numpy(task.dataset.forgotten)]
        tensors["network"] = [task.base_model.trainable_vector()]
    return digest_of(values, tensors, us.state)


def start_client(world: World, loaded: bool = True) -> tuple[Spoke, Channel, int]:
    """A client, the server's channel to it, and the size of the model.

    With ``loaded``, the client has a branch of a run, personal parameters and a model.
    """
    us, port = set_up(world, CLIENT), MemoryPort()
    rmtree(us.state / "checkpoints", ignore_errors=True)
    store = ClientStore(us)

    def open_session() -> tuple[Channel, ClientConversation]:
        channel = handshake.join_hub(us, lambda: port.connect(CLIENT), NO_CHECKPOINTS, 20.0)
        return channel, ClientConversation(us, channel, store)

    def close(channel: Channel, error: Exception | None) -> None:
        if error is not None:
            channel.abort(*abort_reason(error))
        channel.close()

    spoke = start_spoke(open_session, lambda session: digest(session, us), close)
    hub, _ = admit_from(set_up(world, world[0].agreement.hub), port)
    hub.place = place(pb.ROUND)
    if loaded:
        hub.send(branch(f"{RUN} original 1"))
        hub.receive(20.0).expect(pb.Done)
        vector = torch.zeros(store.size)
        if world[0].agreement.mode == "horizontal":
            vector = initial_parameters(cast(Any, world[0].agreement), "original")
        hub.send(pb.LoadVector(slot="model", start=0, size=store.size), vector.numpy())
    return spoke, hub, store.size


def require_refusal(spoke: Spoke, hub: Channel, cause: str) -> None:
    """Check that the last message was refused by the server's name, and changed nothing."""
    with pytest.raises((Aborted, LineBroken)) as told:
        hub.receive(20.0)
    error = spoke.ended().error
    assert isinstance(error, RemoteProtocolError)
    assert exit_code(error) == 6
    assert str(error).startswith("server: ")
    assert cause in str(error)
    if isinstance(told.value, Aborted):  # no message may follow a Goodbye
        assert told.value.code == "protocol"
    assert spoke.before == spoke.after != ""


@pytest.mark.parametrize("name", ORDERS)
def test_wrong_order(wards: World, name: str) -> None:
    wrong = ORDERS[name]
    spoke, hub, size = start_client(wards, wrong.loaded)
    body, tensors = wrong.message(size)
    send_anything(hub, body, *tensors)
    require_refusal(spoke, hub, wrong.cause)


def test_wrong_order_final_model_of_no_run(wards: World) -> None:
    spoke, hub, size = start_client(wards, loaded=False)
    send_anything(hub, *_parts(load(DELIVERED)(size)))
    send_anything(hub, pb.Goodbye())
    require_refusal(spoke, hub, "before it named the run")


def _parts(sent: Sent) -> tuple[Any, ...]:
    return sent[0], *sent[1]


def test_agreed_tasks_are_carried_out(wards: World) -> None:
    """The same server, with tasks at the limits of the agreement."""
    spoke, hub, size = start_client(wards)
    for rows, slots, task in (
        ("learn", (), local_task(stream="any", learning_rate=0.05)),
        ("forgotten", (), local_task("unlearning-loss")),
        ("forgotten", ("teacher",), local_task("pseudo-labels")),
    ):
        if rows == "forgotten":
            hub.send(pb.SelectRequest(request="half"))
            hub.receive(20.0).expect(pb.Done)
            hub.send(*_parts(load("teacher")(size)))
        hub.send(*_parts(run_task(task, rows, *slots)(size)))
        hub.receive(20.0).expect(pb.Update)
        hub.receive(20.0).expect(pb.LocalUpdate)
    hub.line.close()
    assert "closed" in str(spoke.ended().error)


# --- texts ----------------------------------------------------------------------------------------


def text_task(**changes: Any) -> LocalTask:
    plan = TextTask(optimiser="adamw")
    task = LocalTask(
        aim="text", stream="x", epochs=1, batch=8, learning_rate=0.02, text=replace(plan, **changes)
    )
    return replace(task, clip=1.0)


@pytest.fixture(scope="module")
def ferries(tmp_path_factory: pytest.TempPathFactory) -> World:
    return prepare_federation(tmp_path_factory.mktemp("ferries"))


TEXT_ORDERS = {
    "an objective that is not agreed": Wrong(
        "nearest one in text", run_task(text_task(objective="grad-ascent"))
    ),
    "a layer of no method": Wrong(
        "nearest one in text", run_task(text_task(objective="rmu", layer=99))
    ),
    "another optimiser": Wrong("nearest one in text", run_task(text_task(optimiser="sgd"))),
    "a task of networks": Wrong(
        "legal aims: text", run_task(LocalTask(stream="x", batch=8, learning_rate=0.02))
    ),
}


@pytest.mark.parametrize("name", TEXT_ORDERS)
def test_wrong_order_of_texts(ferries: World, name: str) -> None:
    wrong = TEXT_ORDERS[name]
    spoke, hub, size = start_client(ferries)
    send_anything(hub, *_parts(wrong.message(size)))
    require_refusal(spoke, hub, wrong.cause)
