"""Parties that only greet: real certificates and agreements, and rows that nobody may touch."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from configs.agreement import Agreement
from configs.schema import canonical
from configs.seat import Seat, SklearnData
from parties.common.progress import Watch
from parties.common.traffic import Ledger
from parties.data.holding import Holding
from parties.session import handshake as join
from parties.session.handshake import Port
from parties.session.memory_port import MemoryPort
from parties.session.party import Party
from parties.session.setup import admit
from protocol import vfl_pb2 as say
from protocol.channel import Channel
from protocol.grpc_line import GrpcLine, Server, dial
from protocol.keyring import read_keyring, trust
from protocol.line import Line
from protocol.phases import Side
from tests.conftest import HUB, SPOKE

PLAN: dict[str, Any] = {
    "federation": "trial",
    "parties": {
        "bank": {"role": "active", "width": 3},
        "hospital": {"role": "passive", "width": 4},
        "shop": {"role": "passive", "width": 2, "bottom": {"kind": "cnn", "channels": [4]}},
    },
    "labels": {"classes": ["no", "yes"]},
    "unlearn": [{"name": "some", "classes": ["yes"], "fraction": 0.5}],
    "limits": {"join_seconds": 10.0, "step_seconds": 5.0},
}


class Untouched:
    """Rows before the greeting: whoever looks at them fails the test."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the rows were touched: {name}")


@dataclass(frozen=True)
class Attendance:
    """How a party differs from one that is as it should be."""

    plan: Mapping[str, Any] = field(default_factory=lambda: PLAN)
    shift: float = 0.0  # seconds by which its clock is ahead
    pins: Mapping[str, list[str]] = field(default_factory=dict)
    said: str | None = None  # its agreement, where no Agreement would say that


def party(keys: Path, name: str, events: list[Any], how: Attendance | None = None) -> Party:
    """A party that may only greet."""
    how = how or Attendance()
    ring, watch = read_keyring(keys, name), Watch(name, events.append)
    taken = Party(
        name=name,
        agreement=Agreement.model_validate_json(json.dumps(how.plan), strict=True),
        seat=Seat(data=SklearnData(kind="sklearn", name="digits")),
        holding=cast(Holding, Untouched()),
        keyring=ring,
        trust=trust(ring, "trial", dict(how.pins)),
        state=Path("nowhere"),
        incarnation=1,
        now=lambda: datetime.now(UTC) + timedelta(seconds=how.shift),
        entropy=os.urandom,
        watch=watch,
        ledger=Ledger(watch.crossed),
    )
    return taken if how.said is None else _saying(taken, how.said)


def _saying(taken: Party, text: str) -> Party:
    """The same party with another agreement, legal or not."""
    members = {
        "__slots__": (),
        "canonical": property(lambda _: text),
        "digest": property(lambda _: sha256(text.encode()).digest()),
    }
    other = type("Saying", (Party,), members)
    return other(**{each.name: getattr(taken, each.name) for each in fields(taken)})


@dataclass(frozen=True)
class Meeting:
    """Where the hub waits and spokes arrive."""

    port: Port
    connect: Callable[[str], Line]


@contextmanager
def meeting(transport: str, hub: Party, keys: Path, folder: Path) -> Iterator[Meeting]:
    """The hub's port over either transport; lines are cut at the end."""
    if transport == "memory":
        memory = MemoryPort()
        yield Meeting(memory, memory.connect)
        return
    address, lines = f"unix:{folder}/hub", list[GrpcLine]()

    def connect(name: str) -> Line:
        lines.append(dial(address, read_keyring(keys, name), HUB))
        return lines[-1]

    with Server(address, hub.keyring, lambda leaf: admit(hub, leaf), 2) as server:
        yield Meeting(server, connect)
        for line in lines:
            line.cut()


def leaves(content: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all settings."""
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def changed(content: dict[str, Any], path: tuple[str, ...]) -> str:
    """The canonical text with one setting changed."""
    copy = json.loads(json.dumps(content))
    table = copy
    for key in path[:-1]:
        table = table[key]
    match table[path[-1]]:
        case bool(value):
            table[path[-1]] = not value
        case int(value) | float(value):
            table[path[-1]] = value + 1
        case str(value):
            table[path[-1]] = value + "x"
        case list(value):
            table[path[-1]] = [*value, "x"]
        case _:
            table[path[-1]] = 1
    return json.dumps(copy, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


AGREED: dict[str, Any] = json.loads(
    canonical(Agreement.model_validate_json(json.dumps(PLAN), strict=True))
)
FIELDS = list(leaves(AGREED))


def by_hand(line: Line, side: Side, us: Party) -> Channel:
    return Channel(line, side, us.terms(SPOKE if side is Side.HUB else HUB), lambda crossing: None)


SESSION = b"s" * 16
Sign = Callable[[Party, tuple[bytes, ...]], tuple[bytes, bytes]]


def hub_by_hand(
    us: Party, line: Line, sign: Sign, *, nonce: bytes = b"m" * 32, ahead: float = 0.0
) -> Channel:
    """A hub that says Welcome with the certificate and signature that ``sign`` gives."""
    channel = by_hand(line, Side.HUB, us)
    greeting = channel.receive(5).expect(say.Hello)
    channel.session = SESSION
    bound = join._bound(us.digest, channel, HUB, SPOKE, greeting.nonce, nonce)
    certificate, signature = sign(us, bound)
    channel.send(
        say.Welcome(
            nonce=nonce,
            clock=us.now().timestamp() + ahead,
            software="vfl 0",
            certificate=certificate,
            signature=signature,
        )
    )
    return channel


def properly(us: Party, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("welcome", *bound)
