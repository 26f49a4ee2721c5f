"""Random orders: a passive party and a client only ever refuse by name, or obey."""

import random
from functools import partial
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Any

import pytest
from hostile_hub import admit_from, place
from order_fuzz import Sink, offer, random_order
from test_bad_client_orders import (
    CLIENT,
    RUN,
    World,
    ferries,  # noqa: F401  a fixture
    load,
    local_task,
    run_task,
    set_up,
    wards,  # noqa: F401  a fixture
)
from test_bad_client_orders import digest as client_digest
from test_bad_vertical_orders import (
    ALIGNED,
    ORDERS,
    PLAN,
    TRAINED,
    UNLEARNING,
    digest,
    legal_orders,
    passive_party,
    states,  # noqa: F401  a fixture
)
from three_parties import agreement, party

from parties.common.errors import exit_code
from parties.horizontal.client import ClientConversation
from parties.horizontal.client_store import ClientStore
from parties.session import handshake
from parties.session.handshake import NO_CHECKPOINTS
from parties.session.memory_port import MemoryPort
from parties.vertical.passive import PassiveSession
from parties.vertical.resume import party_checkpoints, start_party_state
from protocol import vfl_pb2 as pb
from protocol.message import Message
from protocol.phases import Phase

WORDS = ("original", "early checkpoint", "left", "half", "model", "teacher", "second", "x", CLIENT)
COUNT = 600  # orders in a test
TASKS = (pb.TRAIN, pb.EVALUATE, pb.UNLEARN, pb.RELEARN, pb.CHECKPOINT, pb.CLOSE, pb.ROUND, pb.JOIN)


def names_hub(error: Exception, hub: str) -> bool:
    """Whether an error names the hub; one about a rule of the agreement names the rule."""
    return exit_code(error) == 8 or (exit_code(error) == 6 and str(error).startswith(f"{hub}: "))


def random_place(draw: random.Random) -> pb.Place:
    return place(draw.choice(TASKS), epoch=draw.randrange(3), microbatch=draw.randrange(2))


@pytest.mark.parametrize("state", [ALIGNED, TRAINED, UNLEARNING])
@pytest.mark.parametrize("seed", range(2))
def test_passive_party_refuses_or_obeys(states: Path, state: str, seed: int) -> None:  # noqa: F811
    us, port = passive_party(states, state), MemoryPort()
    checkpoints, hub = party_checkpoints(us), party(states, "hub", agreement(**PLAN), [])

    def resume() -> None:
        channel, found = admit_from(hub, port)
        channel.place = place(pb.CHECKPOINT)
        channel.send(pb.Resume(checkpoint=max(found.numbers)))

    Thread(target=resume, daemon=True).start()
    channel = handshake.join_hub(us, lambda: port.connect("left"), checkpoints.offer(), 20.0)
    start = partial(start_party_state, us, channel, checkpoints)
    session = PassiveSession(us, channel, checkpoints, start)
    channel.line = Sink()  # type: ignore[assignment]
    draw, obeyed = random.Random(seed), 0
    wrong = [order for each in ORDERS.values() for order in each.orders]
    orders = [*wrong, *(order for _, order in legal_orders())]
    legal = [Message(each.body, each.tensors) for each in orders]
    for _ in range(COUNT):
        before = digest(session, us)
        message = random_order(draw, legal, WORDS, [(16, 4), (16, 3), (1,), (5, 5, 5)])
        at = place(draw.choice(orders).task) if draw.random() < 0.5 else random_place(draw)
        error = offer(channel, session.handle, at, message)
        if error is not None:
            assert names_hub(error, "hub")
            assert digest(session, us) == before, (message.kind, str(error))
            continue
        obeyed += 1
        if channel.phase is Phase.CLOSED:  # an end of the run is a legal order
            break
    assert obeyed or state == ALIGNED


def legal_messages(size: int) -> list[Message]:
    """Messages that a client of the agreement may carry out."""
    bodies: list[Any] = [
        pb.SelectRequest(request="half"), pb.Purge(), pb.SwitchBranch(branch=f"{RUN} x"),
        pb.EvaluateRows(rows=pb.TEST, parameters=pb.EvaluateRows.SENT), pb.Goodbye(),
        pb.StartSum(members=[CLIENT], threshold=1, context=bytes(32)),
    ]  # fmt: skip
    tasks = [
        run_task(local_task()), run_task(local_task("unlearning-loss"), "forgotten"),
        run_task(local_task("pseudo-labels"), "forgotten", "teacher"),
    ]  # fmt: skip
    vectors = [load(slot)(size) for slot in ("model", "teacher", "second")]
    sent = [*(each(size) for each in tasks), *vectors, *((body, ()) for body in bodies)]
    return [Message(*each) for each in sent]


def client_refuses_or_obeys(world: World, seed: int, count: int) -> int:
    us, port = set_up(world, CLIENT), MemoryPort()
    rmtree(us.state / "checkpoints", ignore_errors=True)
    hub = set_up(world, world[0].agreement.hub)
    Thread(target=lambda: admit_from(hub, port), daemon=True).start()
    channel = handshake.join_hub(us, lambda: port.connect(CLIENT), NO_CHECKPOINTS, 20.0)
    conversation = ClientConversation(us, channel, ClientStore(us))
    channel.line = Sink()  # type: ignore[assignment]
    draw, obeyed = random.Random(seed), 0
    size = conversation._store.size
    legal = legal_messages(size)
    for _ in range(count):
        before = client_digest(conversation, us)
        message = random_order(draw, legal, WORDS, [(size,), (1,), (size + 1,), (2, 2)])
        error = offer(channel, conversation.handle, random_place(draw), message)
        if error is not None:
            assert names_hub(error, "server")
            assert client_digest(conversation, us) == before, (message.kind, str(error))
            continue
        obeyed += 1
        if channel.phase is Phase.CLOSED:
            break
    return obeyed


@pytest.mark.parametrize("seed", range(3))
def test_client_refuses_or_obeys(wards: World, seed: int) -> None:  # noqa: F811
    assert client_refuses_or_obeys(wards, seed, COUNT)


@pytest.mark.parametrize("seed", range(2))
def test_text_client_refuses_or_obeys(ferries: World, seed: int) -> None:  # noqa: F811
    client_refuses_or_obeys(ferries, seed, 200)
