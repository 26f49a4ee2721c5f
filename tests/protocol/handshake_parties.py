"""Parties for handshake tests: real certificates and agreements, and rows that raise if read."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from configs.config_file import canonical_agreement
from parties.common.progress import ProgressReporter
from parties.common.traffic import TrafficCounter
from parties.data.holding import Holding
from parties.data.party_settings import VerticalPartySettings
from parties.data.sources.sklearn_source import SklearnData
from parties.session import handshake
from parties.session.handshake import SpokePort
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.party import VerticalParty
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.setup import admit_passive_party
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.grpc_line import GrpcLine, LineServer, dial_hub
from protocol.keyring import make_trust, read_keyring
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


class UnreadableRows:
    """Stands for a party's rows; reading them during the handshake fails the test."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the rows were touched: {name}")


@dataclass(frozen=True)
class PartyVariant:
    """Differences of one party from a correct one."""

    plan: Mapping[str, Any] = field(default_factory=lambda: PLAN)
    shift: float = 0.0  # seconds by which the party's clock is ahead
    pins: Mapping[str, list[str]] = field(default_factory=dict)
    agreement_text: str | None = None  # agreement text that replaces the real one


def party(
    keys: Path, name: str, events: list[Any], variant: PartyVariant | None = None
) -> VerticalParty:
    """Return a party that takes part in a handshake only."""
    variant = variant or PartyVariant()
    keyring, watch = read_keyring(keys, name), ProgressReporter(name, events.append)
    correct_party = VerticalParty(
        name=name,
        agreement=AGREEMENT.model_validate_json(json.dumps(variant.plan), strict=True),
        settings=VerticalPartySettings(data=SklearnData(kind="sklearn", name="digits")),
        holding=cast(Holding, UnreadableRows()),
        keyring=keyring,
        trust=make_trust(keyring, "trial", dict(variant.pins)),
        state=Path("nowhere"),
        incarnation=1,
        now=lambda: datetime.now(UTC) + timedelta(seconds=variant.shift),
        entropy=os.urandom,
        progress=watch,
        traffic=TrafficCounter(watch.add_bytes),
    )
    return (
        correct_party
        if variant.agreement_text is None
        else with_agreement_text(correct_party, variant.agreement_text)
    )


def with_agreement_text(original_party: VerticalParty, text: str) -> VerticalParty:
    """Return the same party with another agreement text, legal or not."""
    members = {
        "__slots__": (),
        "canonical_agreement": property(lambda _: text),
        "digest": property(lambda _: sha256(text.encode()).digest()),
    }
    other = type("Saying", (VerticalParty,), members)
    return other(
        **{each.name: getattr(original_party, each.name) for each in fields(original_party)}
    )


@dataclass(frozen=True)
class OpenPort:
    """The hub's port, and a function that connects a spoke to it."""

    port: SpokePort
    connect: Callable[[str], Line]


@contextmanager
def open_hub_port(
    transport: str, hub: VerticalParty, keys: Path, folder: Path
) -> Iterator[OpenPort]:
    """Open the hub's port on one transport; its lines are cut at the end."""
    if transport == "memory":
        memory = MemoryPort()
        yield OpenPort(memory, memory.connect)
        return
    address, lines = f"unix:{folder}/hub", list[GrpcLine]()

    def connect(name: str) -> Line:
        lines.append(dial_hub(address, read_keyring(keys, name), HUB))
        return lines[-1]

    with LineServer(address, hub.keyring, lambda leaf: admit_passive_party(hub, leaf), 2) as server:
        yield OpenPort(server, connect)
        for line in lines:
            line.cut()


def leaves(content: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all settings."""
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def changed(content: dict[str, Any], path: tuple[str, ...]) -> str:
    """Return the canonical text with one setting changed."""
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
    canonical_agreement(AGREEMENT.model_validate_json(json.dumps(PLAN), strict=True))
)
FIELDS = list(leaves(AGREED))


def scripted_channel(line: Line, side: Side, us: VerticalParty) -> Channel:
    return Channel(line, side, us.terms(SPOKE if side is Side.HUB else HUB), lambda record: None)


SESSION = b"s" * 16
Sign = Callable[[VerticalParty, tuple[bytes, ...]], tuple[bytes, bytes]]


def run_scripted_hub(
    us: VerticalParty, line: Line, sign: Sign, *, nonce: bytes = b"m" * 32, ahead: float = 0.0
) -> Channel:
    """Send Welcome as a hub, with the certificate and signature that ``sign`` returns."""
    channel = scripted_channel(line, Side.HUB, us)
    greeting = channel.receive(5).expect(pb.Hello)
    channel.session = SESSION
    bound = handshake._signed_fields(us.digest, channel, HUB, SPOKE, greeting.nonce, nonce)
    certificate, signature = sign(us, bound)
    channel.send(
        pb.Welcome(
            nonce=nonce,
            clock=us.now().timestamp() + ahead,
            software="vfl 0",
            certificate=certificate,
            signature=signature,
        )
    )
    return channel


def sign_correctly(us: VerticalParty, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("welcome", *bound)
