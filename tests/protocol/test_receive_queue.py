"""Heartbeats: a stopped or unreachable peer is given up, and a busy one is waited for."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import pytest
from message_examples import ASK, endpoint, floats
from relay import Relay

from protocol import vfl_pb2 as pb
from protocol.errors import LineBroken, PeerSilent, RemoteProtocolError
from protocol.grpc_line import LineServer, dial_hub
from protocol.keyring import read_keyring
from protocol.phases import Phase, Side
from protocol.receive_queue import LineTimeouts, ReceiveQueue
from tests.conftest import HUB, SPOKE, Dial, grpc_lines, listening

SHORT_SILENCE = LineTimeouts(heartbeat=0.1, silence=2.0)
SHORT_KEEPALIVE = LineTimeouts(
    keepalive=1.0, keepalive_timeout=1.0, silence=300.0
)  # only HTTP/2 pings notice


def test_heartbeat_is_not_returned_as_a_frame() -> None:
    queue = ReceiveQueue(SHORT_SILENCE)
    for frame in (b"", b"one", b"", b"", b"two", b""):
        queue.put(frame)
    assert [queue.get(1), queue.get(1)] == [b"one", b"two"]
    with pytest.raises(PeerSilent, match=r"^the peer sent no message for 0\.01 s$"):
        queue.get(0.01)


def test_busy_peer_is_waited_for(keys: Path, tmp_path: Path) -> None:
    """A peer that sends heartbeats only, for twice the time of ``silence``, is not dead."""
    with grpc_lines(keys, f"unix:{tmp_path}/hub", SHORT_SILENCE) as lines:
        with pytest.raises(PeerSilent, match=r"^the peer sent no message for 4 s$"):
            lines.hub.receive(4)
        lines.spoke.send(b"at last", 1)
        assert lines.hub.receive(1) == b"at last"


def test_peer_without_heartbeats_is_given_up(keys: Path) -> None:
    rare = LineTimeouts(heartbeat=60.0, silence=60.0)
    with listening(read_keyring(keys, HUB), timeouts=SHORT_SILENCE) as (server, address):
        spoke = dial_hub(address, read_keyring(keys, SPOKE), HUB, rare)
        hub = server.accept(5)
        with pytest.raises(PeerSilent, match=r"^the peer sent no heartbeat for 2 s$"):
            hub.receive(60)
        spoke.cut()


def test_flood_of_heartbeats_is_refused(keys: Path, dialled: Dial) -> None:
    restless = LineTimeouts(heartbeat=0.0)
    with listening(read_keyring(keys, HUB)) as (server, address):
        spoke = dialled(address, SPOKE, timeouts=restless)
        hub = server.accept(5)
        with pytest.raises(RemoteProtocolError, match="sent too many heartbeats"):
            hub.receive(10)
        with pytest.raises(LineBroken):
            spoke.receive(10)


def test_heartbeats_after_a_network_jam_are_no_flood() -> None:
    queue = ReceiveQueue(LineTimeouts(heartbeat=5.0))
    queue._created -= 3600
    for _ in range(3600 // 5):
        queue.put(b"")
    with pytest.raises(PeerSilent):
        queue.get(0)


# --- real processes and real networks -----------------------------------------------------------


def stop_after_request(keys: Path, address: str) -> None:
    """Run a spoke whose process stops after its first request."""
    line = dial_hub(address, read_keyring(keys, SPOKE), HUB, SHORT_SILENCE)
    endpoint(line, Side.SPOKE, Phase.READY).channel.receive(30)
    os.kill(os.getpid(), signal.SIGSTOP)


def reply_late(keys: Path, address: str) -> None:
    """Run a spoke that computes for twice the time of ``silence`` before its reply."""
    line = dial_hub(address, read_keyring(keys, SPOKE), HUB, SHORT_SILENCE)
    channel = endpoint(line, Side.SPOKE, Phase.READY).channel
    channel.receive(30)
    until = monotonic() + 2 * SHORT_SILENCE.silence
    while monotonic() < until:
        pass
    channel.send(pb.Embedding(), floats(2, 2))
    sleep(30)


@contextmanager
def spoke_process(act: object, keys: Path, server: LineServer, address: str) -> Iterator[object]:
    process = get_context("spawn").Process(target=act, args=(keys, address), daemon=True)
    process.start()
    try:
        yield server.accept(60)
    finally:
        process.kill()
        process.join(10)


@pytest.mark.slow
def test_stopped_process_is_named_with_its_place(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), timeouts=SHORT_SILENCE) as (server, address),
        spoke_process(stop_after_request, keys, server, address) as line,
    ):
        hub = endpoint(line, Side.HUB, Phase.READY).channel
        hub.send(ASK)
        started = monotonic()
        message = r"^shop: the peer sent no heartbeat for 2 s \(train, epoch 3, step 17\)$"
        with pytest.raises(PeerSilent, match=message):
            hub.receive(600)
        assert monotonic() - started < 10


@pytest.mark.slow
def test_process_that_computes_is_waited_for(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), timeouts=SHORT_SILENCE) as (server, address),
        spoke_process(reply_late, keys, server, address) as line,
    ):
        hub = endpoint(line, Side.HUB, Phase.READY).channel
        hub.send(ASK)
        assert hub.receive(60).kind == "Embedding"


@pytest.mark.slow
def test_link_that_loses_everything_is_a_broken_line_at_both_ends(keys: Path) -> None:
    """As when a cable is pulled: only the pings of HTTP/2 notice it."""
    with (
        listening(read_keyring(keys, HUB), timeouts=SHORT_KEEPALIVE) as (server, _),
        Relay(server.port) as relay,
    ):
        spoke = dial_hub(f"127.0.0.1:{relay.port}", read_keyring(keys, SPOKE), HUB, SHORT_KEEPALIVE)
        hub = server.accept(5)
        relay.drop_all()
        started = monotonic()
        for line in (hub, spoke):
            with pytest.raises(LineBroken):
                line.receive(60)
        assert monotonic() - started < 30
        spoke.cut()


@pytest.mark.slow
def test_link_of_five_bytes_per_second_is_given_up(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), timeouts=SHORT_SILENCE) as (server, _),
        Relay(server.port) as relay,
    ):
        spoke = dial_hub(f"127.0.0.1:{relay.port}", read_keyring(keys, SPOKE), HUB, SHORT_SILENCE)
        hub = server.accept(5)
        relay.slow_down()
        spoke.send(bytes(2**20), 5)
        with pytest.raises(PeerSilent, match="no heartbeat"):
            hub.receive(60)
        spoke.cut()


def test_stream_without_frames_ends_at_its_timeout(keys: Path, dialled: Dial) -> None:
    with listening(read_keyring(keys, HUB), timeouts=SHORT_SILENCE) as (server, address):
        dialled(address, SPOKE, timeouts=SHORT_SILENCE)
        with pytest.raises(PeerSilent, match=r"shop: the peer sent no message for 0\.3 s"):
            endpoint(server.accept(5), Side.HUB).channel.receive(0.3)


@pytest.mark.slow
def test_unfinished_tls_handshake_times_out(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), timeouts=LineTimeouts(handshake=1.0)) as (server, _),
        socket.create_connection(("127.0.0.1", server.port), 5) as plain,
    ):
        plain.settimeout(10)
        plain.sendall(b"\x16\x03")  # the first two bytes of a Client Hello
        with suppress(ConnectionResetError):
            assert plain.recv(100) == b""


def test_party_may_connect_again_once_the_lost_stream_is_noticed(keys: Path, dialled: Dial) -> None:
    """A spoke connects again before the hub has noticed that its link is broken."""
    with (
        listening(read_keyring(keys, HUB), timeouts=SHORT_KEEPALIVE) as (server, address),
        Relay(server.port) as relay,
    ):
        lost = dialled(f"127.0.0.1:{relay.port}", SPOKE)
        server.accept(5)
        relay.drop_all()
        deadline, connected = monotonic() + 30, False
        while not connected:
            assert monotonic() < deadline
            again = dialled(address, SPOKE)
            try:
                again.receive(0.5)
            except PeerSilent:
                connected = True  # the hub accepted the connection
            except LineBroken as error:
                assert "an earlier connection of this party" in str(error)  # noqa: PT017
        lost.cut()
