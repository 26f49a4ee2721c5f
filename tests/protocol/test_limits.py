"""Resource limits: excessive requests are refused, and refusing them costs bounded memory."""

import resource
import socket
from collections import Counter
from contextlib import suppress
from pathlib import Path
from queue import Queue
from time import monotonic, sleep

import grpc
import pytest
from message_examples import (
    ASK,
    end_of,
    endpoint,
    envelope,
    example,
    floats,
    frame,
    open_conversation,
    raw,
)

from protocol import vfl_pb2 as pb
from protocol.errors import IdentityError, PeerSilent, ProtocolError, RemoteProtocolError
from protocol.frames import MAX_FRAME
from protocol.grpc_line import DEFAULT_TIMEOUTS, grpc_options
from protocol.keyring import read_keyring
from protocol.line import MAX_QUEUED_FRAMES, memory_lines
from protocol.message import Message
from protocol.phases import Phase, Side
from tests.conftest import HUB, SPOKE, Dial, grpc_lines, listening

_METHOD = "/vfl.Line/Talk"


def grpc_channel(keys: Path, address: str, **changes: int) -> grpc.Channel:
    """Return a gRPC channel of the shop with other options."""
    keyring = read_keyring(keys, SPOKE)
    credentials = grpc.ssl_channel_credentials(
        keyring.authority_pem, keyring.key_pem, keyring.certificate_pem
    )
    all_options = {
        **dict(grpc_options(DEFAULT_TIMEOUTS)),
        "grpc.use_local_subchannel_pool": 1,
        **changes,
    }
    return grpc.secure_channel(
        address, credentials, [*all_options.items(), ("grpc.ssl_target_name_override", HUB)]
    )


def memory() -> int:
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def can_join(server: object, address: str, dialled: Dial) -> bool:
    """Return whether the hospital can still connect and send."""
    line = dialled(address, "hospital")
    while True:
        try:
            hub = server.accept(10)  # type: ignore[attr-defined]
        except ProtocolError:
            continue  # an earlier refusal
        if hub.peer == "hospital":
            line.send(b"here", 5)
            return bool(hub.receive(5) == b"here")


@pytest.mark.parametrize("size", [12 * 2**10, 2**16])
def test_large_metadata_is_refused(keys: Path, dialled: Dial, size: int) -> None:
    with listening(read_keyring(keys, HUB)) as (server, address):
        with grpc_channel(keys, address) as channel:
            talk = channel.stream_stream(_METHOD)(
                iter([b"x"]), metadata=(("x-note", "x" * size),), timeout=20
            )
            with pytest.raises(grpc.RpcError):
                next(talk)
            assert talk.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert can_join(server, address, dialled)


@pytest.mark.slow
def test_memory_of_a_thousand_calls_is_bounded(keys: Path, dialled: Dial) -> None:
    """Of many connections of one party one is kept; refusing the others takes little memory."""
    with listening(read_keyring(keys, HUB)) as (server, address):
        channels = [grpc_channel(keys, address) for _ in range(8)]
        before = memory()
        calls = [
            channels[number % 8].stream_stream(_METHOD)(iter([b"x"]), timeout=30)
            for number in range(1000)
        ]
        codes: Counter[grpc.StatusCode] = Counter()
        for call in calls:
            call.add_done_callback(lambda call: codes.update([call.code()]))
        with suppress(IdentityError):  # the second connection may be reported first
            assert server.accept(10).peer == SPOKE
        deadline = monotonic() + 25
        while codes.total() < 999 and monotonic() < deadline:
            sleep(0.1)
        grown = memory() - before
        refused = {
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.ALREADY_EXISTS,
            grpc.StatusCode.UNAVAILABLE,  # on a busy machine
        }
        assert codes.total() == sum(codes[code] for code in refused) == 999
        assert grown < 2**27  # both sides are in this process
        for channel in channels:
            channel.close()
        assert can_join(server, address, dialled)


def test_one_byte_too_many_is_refused_and_a_new_stream_is_accepted(
    keys: Path, tmp_path: Path
) -> None:
    """On the same connection, after the hub has closed the old stream."""
    address = f"unix:{tmp_path}/hub"
    with (
        listening(read_keyring(keys, HUB), address) as (server, _),
        grpc_channel(keys, address, **{"grpc.max_send_message_length": -1}) as channel,
    ):
        frames: Queue[bytes | None] = Queue()
        first = channel.stream_stream(_METHOD)(iter(frames.get, None))
        line = server.accept(5)
        frames.put(bytes(MAX_FRAME + 1))
        with pytest.raises(RemoteProtocolError, match=f"at most {MAX_FRAME} are legal"):
            endpoint(line, Side.HUB, Phase.READY).channel.receive(5)
        line.cut()
        with pytest.raises(grpc.RpcError):
            for _ in first:
                pass
        frames.put(None)
        received = None
        while received is None:
            again = channel.stream_stream(_METHOD)(iter([b"again"]))
            try:
                received = server.accept(5).receive(5)
            except ProtocolError:
                continue  # the hub saw the new stream before the end of the old one
        assert received == b"again"
        again.cancel()


def test_slow_reader_costs_no_memory(keys: Path, tmp_path: Path) -> None:
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as lines:

        def push() -> int:
            taken = 0
            try:
                while True:
                    lines.spoke.send(bytes(2**20), 1.0)
                    taken += 1
            except PeerSilent:
                return taken

        assert push() <= 2 * MAX_QUEUED_FRAMES + 16  # queues of both sides, and the network
        full = memory()
        for _ in range(3):
            assert push() == 0
        assert memory() - full < 2**22


def test_deep_nesting_is_refused() -> None:
    groups = b"\x7b" * 5000 + b"\x7c" * 5000  # 5,000 nested groups in field 15
    lists = b""
    for _ in range(5000):
        lists = b"\x7a" + _varint(len(lists)) + lists  # a message in field 15 of a message
    header = frame(Message(ASK), envelope(endpoint(memory_lines()[0], Side.HUB).channel))[4:]
    for nested in (groups, lists):
        hub, spoke = memory_lines()
        hub.send(raw(header + nested), 1)
        with pytest.raises(RemoteProtocolError, match="the header"):
            endpoint(spoke, Side.SPOKE, Phase.READY).channel.receive(1)


def _varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded += bytes([number % 128 + 128])
        number //= 128
    return encoded + bytes([number])


def test_dropped_answers_act_once() -> None:
    """The hub repeats its request because every reply is lost."""
    hub, spoke = memory_lines(SPOKE)
    conversation = open_conversation(hub, spoke, Phase.READY)
    conversation.exchange(Side.HUB, pb.Purge())
    conversation.spoke.channel.send(*_done())
    question = conversation.hub.line.sent[0]
    for _ in range(5):
        hub.receive(1)  # the reply, which is lost
        hub.send(question, 1)
        with pytest.raises(PeerSilent):
            conversation.spoke.channel.receive(0.05)
    assert conversation.hub.channel.receive(1).kind == "Done"
    assert [fact.kind for fact in conversation.spoke.records] == ["Purge", "Done"]


def _done() -> tuple[pb.Done]:
    body = example(pb.Done).body
    assert isinstance(body, pb.Done)
    return (body,)


def test_ipv6_is_supported(keys: Path, dialled: Dial) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with listening(read_keyring(keys, HUB), "[::1]:0") as (server, address):
        assert address == f"[::1]:{server.port}"
        line = dialled(address, SPOKE)
        talk = open_conversation(server.accept(10), line, Phase.READY)
        talk.exchange(Side.HUB, ASK)
        talk.exchange(Side.SPOKE, pb.Embedding(), floats(4, 3))
    assert "closed the connection" in str(end_of(line)) or "no process listens" in str(end_of(line))
