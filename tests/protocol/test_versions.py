"""Protocol versions: parties one version apart use that of the older one, others are refused."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from handshake_parties import PLAN, PartyVariant, party, scripted_channel
from two_versions import unpack_version_before

from parties.session import handshake
from parties.session.handshake import accept_spokes, join_hub
from parties.session.memory_port import MemoryPort
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.envelope import PROTOCOL_BEFORE, PROTOCOL_VERSION
from protocol.errors import Aborted, RemoteProtocolError
from protocol.frames import decode_message
from protocol.message import BODY_FIELDS
from protocol.phases import Side
from tests.conftest import HUB, SPOKE

TWO = PartyVariant({**PLAN, "parties": {n: PLAN["parties"][n] for n in (HUB, SPOKE)}})
NEXT = PROTOCOL_VERSION + 1


@pytest.fixture
def _next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program speaks one version more, and that of now as the version before."""
    monkeypatch.setattr(handshake, "PROTOCOL_VERSION", NEXT)
    monkeypatch.setattr(handshake, "PROTOCOL_BEFORE", PROTOCOL_VERSION)


@pytest.mark.usefixtures("_next_version")
@pytest.mark.parametrize(
    ("oldest", "newest", "chosen"),
    [
        (PROTOCOL_VERSION - 1, PROTOCOL_VERSION, PROTOCOL_VERSION),  # the version before
        (PROTOCOL_VERSION, NEXT, NEXT),
        (NEXT, NEXT + 1, NEXT),  # the version after
    ],
)
def test_hub_chooses_the_newest_version_of_both(
    keys: Path, oldest: int, newest: int, chosen: int
) -> None:
    port, shop = MemoryPort(), party(keys, SPOKE, [], TWO)
    channel = scripted_channel(port.connect(SPOKE), Side.SPOKE, shop)
    channel.send(hello(shop.canonical_agreement, oldest, newest, shop.now().timestamp()))
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(accept_spokes, party(keys, HUB, [], TWO), port)
        assert isinstance(channel.receive(5).body, pb.Welcome)
        assert channel.version == chosen
        channel.cut()
        assert accepting.exception(20) is not None


@pytest.mark.usefixtures("_next_version")
@pytest.mark.parametrize(
    ("oldest", "newest", "behind"),
    [(PROTOCOL_VERSION - 2, PROTOCOL_VERSION - 1, "shop"), (NEXT + 1, NEXT + 2, "bank")],
)
def test_two_versions_apart_are_refused_with_the_party_to_upgrade(
    keys: Path, oldest: int, newest: int, behind: str
) -> None:
    port, shop = MemoryPort(), party(keys, SPOKE, [], TWO)
    channel = scripted_channel(port.connect(SPOKE), Side.SPOKE, shop)
    channel.send(hello(shop.canonical_agreement, oldest, newest, shop.now().timestamp()))
    hub = party(keys, HUB, [], TWO)
    with pytest.raises(RemoteProtocolError, match="only versions one apart") as ours:
        accept_spokes(hub, port)
    assert f"upgrade {behind}" in ours.value.hint
    with pytest.raises(Aborted, match=f"shop runs vfl 0.2 with protocol versions {oldest} to"):
        channel.receive(5)


@pytest.mark.usefixtures("_next_version")
def test_parties_of_one_version_go_on_with_it_after_the_handshake(keys: Path) -> None:
    port = MemoryPort()
    with ThreadPoolExecutor(1) as pool:
        shop = party(keys, SPOKE, [], TWO)
        joining = pool.submit(join_hub, shop, lambda: port.connect(SPOKE))
        hub, _ = accept_spokes(party(keys, HUB, [], TWO), port)
        ours: Channel = hub.channels[SPOKE]
        theirs = joining.result(5)
    assert (ours.version, theirs.version) == (NEXT, NEXT)
    ours.send(pb.Goodbye())
    assert isinstance(theirs.receive(5).body, pb.Goodbye)


def test_every_message_of_the_version_before_is_read(tmp_path: Path) -> None:
    golden = unpack_version_before(tmp_path, "tests/golden") / "tests" / "golden"
    frames = {path.stem: path.read_bytes() for path in golden.glob("*.bin")}
    assert len(frames) > 50
    for name, content in frames.items():
        frame = iter([content])
        envelope, message = decode_message(lambda frame=frame: next(frame))
        assert BODY_FIELDS[type(message.body)] == name
        assert PROTOCOL_BEFORE <= envelope.version <= PROTOCOL_VERSION


def hello(agreement: str, oldest: int, newest: int, clock: float) -> pb.Hello:
    """The Hello of a program that supports these versions of the protocol."""
    return pb.Hello(
        oldest_version=oldest, newest_version=newest, nonce=b"n" * 32, agreement=agreement,
        clock=clock, software="vfl 0.2",
    )  # fmt: skip
