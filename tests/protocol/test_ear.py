"""Signs of life: a stopped or unreachable peer is told from a busy one; nobody waits for ever."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, sleep

import pytest
from relay import Relay
from talk import ASK, floats, speaker

from protocol import vfl_pb2 as say
from protocol.ear import Ear, Habits
from protocol.errors import LineBroken, PeerSilent, RemoteProtocolError
from protocol.grpc_line import Server, dial
from protocol.keyring import read_keyring
from protocol.phases import Phase, Side
from tests.conftest import HUB, SPOKE, Dial, grpc_lines, listening

BRISK = Habits(beat=0.1, silence=2.0)
WIRED = Habits(keepalive=1.0, keepalive_timeout=1.0, silence=300.0)  # HTTP/2 has to notice


def test_sign_of_life_is_not_a_frame() -> None:
    ear = Ear(BRISK)
    for frame in (b"", b"one", b"", b"", b"two", b""):
        ear.arrived(frame)
    assert [ear.listen(1), ear.listen(1)] == [b"one", b"two"]
    with pytest.raises(PeerSilent, match=r"^silent for 0\.01 s$"):
        ear.listen(0.01)


def test_busy_peer_is_waited_for(keys: Path, tmp_path: Path) -> None:
    """It says nothing for twice the time after which a peer without signs of life is given up."""
    with grpc_lines(keys, f"unix:{tmp_path}/hub", BRISK) as lines:
        with pytest.raises(PeerSilent, match=r"^silent for 4 s$"):
            lines.hub.receive(4)
        lines.spoke.send(b"at last", 1)
        assert lines.hub.receive(1) == b"at last"


def test_peer_without_signs_of_life_is_given_up(keys: Path) -> None:
    rare = Habits(beat=60.0, silence=60.0)
    with listening(read_keyring(keys, HUB), habits=BRISK) as (server, address):
        spoke = dial(address, read_keyring(keys, SPOKE), HUB, rare)
        hub = server.accept(5)
        with pytest.raises(PeerSilent, match=r"^no sign of life for 2 s$"):
            hub.receive(60)
        spoke.cut()


def test_flood_of_signs_of_life_is_refused_and_cut_off(keys: Path, dialled: Dial) -> None:
    restless = Habits(beat=0.0)
    with listening(read_keyring(keys, HUB)) as (server, address):
        spoke = dialled(address, SPOKE, habits=restless)
        hub = server.accept(5)
        with pytest.raises(RemoteProtocolError, match="sends signs of life without end"):
            hub.receive(10)
        with pytest.raises(LineBroken):
            spoke.receive(10)


def test_signs_of_life_after_a_jam_are_no_flood() -> None:
    ear = Ear(Habits(beat=5.0))
    ear._born -= 3600
    for _ in range(3600 // 5):
        ear.arrived(b"")
    with pytest.raises(PeerSilent):
        ear.listen(0)


# --- real processes and real networks -----------------------------------------------------------


def stop_when_asked(keys: Path, address: str) -> None:
    """A spoke whose process is stopped as soon as it has a question."""
    line = dial(address, read_keyring(keys, SPOKE), HUB, BRISK)
    speaker(line, Side.SPOKE, Phase.READY).channel.receive(30)
    os.kill(os.getpid(), signal.SIGSTOP)


def answer_late(keys: Path, address: str) -> None:
    """A spoke that works for longer than a silent peer is waited for."""
    line = dial(address, read_keyring(keys, SPOKE), HUB, BRISK)
    channel = speaker(line, Side.SPOKE, Phase.READY).channel
    channel.receive(30)
    until = monotonic() + 2 * BRISK.silence
    while monotonic() < until:
        pass
    channel.send(say.Embedding(), floats(2, 2))
    sleep(30)


@contextmanager
def spoke_process(act: object, keys: Path, server: Server, address: str) -> Iterator[object]:
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
        listening(read_keyring(keys, HUB), habits=BRISK) as (server, address),
        spoke_process(stop_when_asked, keys, server, address) as line,
    ):
        hub = speaker(line, Side.HUB, Phase.READY).channel
        hub.send(ASK)
        started = monotonic()
        told = r"^shop: no sign of life for 2 s \(train, epoch 3, step 17\)$"
        with pytest.raises(PeerSilent, match=told):
            hub.receive(600)
        assert monotonic() - started < 10


@pytest.mark.slow
def test_process_that_computes_is_waited_for(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), habits=BRISK) as (server, address),
        spoke_process(answer_late, keys, server, address) as line,
    ):
        hub = speaker(line, Side.HUB, Phase.READY).channel
        hub.send(ASK)
        assert hub.receive(60).kind == "Embedding"


@pytest.mark.slow
def test_link_that_loses_everything_is_a_broken_line_at_both_ends(keys: Path) -> None:
    """Nobody is told, as when a cable is pulled: the pings of HTTP/2 find it."""
    with (
        listening(read_keyring(keys, HUB), habits=WIRED) as (server, _),
        Relay(server.port) as relay,
    ):
        spoke = dial(f"127.0.0.1:{relay.port}", read_keyring(keys, SPOKE), HUB, WIRED)
        hub = server.accept(5)
        relay.stop_carrying()
        started = monotonic()
        for line in (hub, spoke):
            with pytest.raises(LineBroken):
                line.receive(60)
        assert monotonic() - started < 30
        spoke.cut()


@pytest.mark.slow
def test_link_that_carries_a_byte_now_and_then_is_given_up(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), habits=BRISK) as (server, _),
        Relay(server.port) as relay,
    ):
        spoke = dial(f"127.0.0.1:{relay.port}", read_keyring(keys, SPOKE), HUB, BRISK)
        hub = server.accept(5)
        relay.trickle()
        spoke.send(bytes(2**20), 5)
        with pytest.raises(PeerSilent, match="no sign of life"):
            hub.receive(60)
        spoke.cut()


def test_stream_without_data_is_ended_by_the_deadline(keys: Path, dialled: Dial) -> None:
    with listening(read_keyring(keys, HUB), habits=BRISK) as (server, address):
        dialled(address, SPOKE, habits=BRISK)
        with pytest.raises(PeerSilent, match=r"shop: silent for 0\.3 s"):
            speaker(server.accept(5), Side.HUB).channel.receive(0.3)


@pytest.mark.slow
def test_visitor_who_never_finishes_the_handshake_is_put_out(keys: Path) -> None:
    with (
        listening(read_keyring(keys, HUB), habits=Habits(handshake=1.0)) as (server, _),
        socket.create_connection(("127.0.0.1", server.port), 5) as plain,
    ):
        plain.settimeout(10)
        plain.sendall(b"\x16\x03")  # the first two bytes of a Client Hello
        with suppress(ConnectionResetError):
            assert plain.recv(100) == b""


def test_seat_is_free_again_once_the_lost_stream_is_noticed(keys: Path, dialled: Dial) -> None:
    """A spoke whose link broke dials again before the hub knows that it broke."""
    with (
        listening(read_keyring(keys, HUB), habits=WIRED) as (server, address),
        Relay(server.port) as relay,
    ):
        lost = dialled(f"127.0.0.1:{relay.port}", SPOKE)
        server.accept(5)
        relay.stop_carrying()
        deadline, seated = monotonic() + 30, False
        while not seated:
            assert monotonic() < deadline
            again = dialled(address, SPOKE)
            try:
                again.receive(0.5)
            except PeerSilent:
                seated = True  # nobody hung up
            except LineBroken as error:
                assert "still taken by an earlier connection" in str(error)  # noqa: PT017
        lost.cut()
