"""Figures: a round trip and a large tensor over mutual TLS, compared with bare gRPC."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from math import prod
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter

import grpc
import numpy as np
from bench.ledger import Row, at_least, at_most, shown
from bench.pairs import alternate, paired_ratio
from message_examples import AGREEMENT, ASK, DESCEND, HUB, PLACE, SESSION, SPOKE
from relay import Relay

from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.envelope import ChannelTerms
from protocol.frames import CHUNK
from protocol.grpc_line import DEFAULT_TIMEOUTS, LineServer, dial_hub, grpc_options
from protocol.keyring import Keyring, issue_certificate, make_authority, make_trust, read_keyring
from protocol.line import Line
from protocol.phases import Phase, Side
from protocol.tensors import Tensor

NAMES = (HUB, SPOKE, "hospital")
STEP, LARGE = (256, 64), (4096, 1024)  # float32: 64 KiB and 16 MiB
ROUNDS, TRIPS, LOADS = 10, 200, 4
_BARE = "/bare.Echo/Echo"
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Measured:
    """Seconds of the acts by name: the median of each pair, and all of them."""

    medians: Times
    all_times: Times


def transport(report: Callable[[str], None]) -> Iterator[Row]:
    """Measure round trips, bulk transfers and bytes on the wire, alternately with bare gRPC."""
    step, large = np.ones(STEP, np.float32), np.ones(LARGE, np.float32)
    raw, chunks = step.tobytes(), [large.tobytes()[:CHUNK]] * (large.nbytes // CHUNK)
    with _both_ends() as ends:
        trips: dict[str, Callable[[], object]] = {
            "ours": partial(_exchange_step, ends.ours, step),
            "bare": partial(ends.bare.trip, raw),
            "plain": partial(_plain_trip, ends.plain, raw),
        }
        loads: dict[str, Callable[[], object]] = {
            "ours": partial(_exchange_step, ends.ours, large),
            "bare": partial(ends.bare.load, chunks),
        }
        short, long = _measured(trips, TRIPS, report), _measured(loads, LOADS, report)
        ends.ours.send(pb.Goodbye())
        carried = _carried(ends.relayed, ends.relay, step) / (TRIPS * 2 * step.nbytes)
    yield from _rows(short, long, large.nbytes, carried)


def _measured(
    acts: dict[str, Callable[[], object]], times: int, report: Callable[[str], None]
) -> Measured:
    """Repeat each act ``times`` times per pair; return the medians of the pairs and all times."""
    seconds: Times = {name: [] for name in acts}

    def side(name: str) -> float:
        durations = [_seconds(acts[name]) for _ in range(times)]
        seconds[name] += durations
        return median(durations)

    measures = {name: partial(side, name) for name in acts}
    medians = alternate(measures, ROUNDS, lambda text: report(f"transport: {text}"), warm_up=1)
    return Measured(medians, {name: each[times:] for name, each in seconds.items()})


def _rows(trips: Measured, loads: Measured, size: int, carried: float) -> Iterator[Row]:
    ours, bare, plain = (trips.medians[name] for name in ("ours", "bare", "plain"))
    times = trips.all_times["ours"]
    yield shown("wire: round trip of 64 KiB, median", median(times) * 1e6, "µs")
    yield shown("wire: the same at its 99th percentile", _percentile(times, 99) * 1e6, "µs")
    ratio = paired_ratio(ours, bare)
    yield at_most("wire: round trip over that of a bare gRPC stream", ratio, 1.3, "")
    yield shown("wire: round trip over that of plain TCP", paired_ratio(ours, plain), "")
    ours, bare = loads.medians["ours"], loads.medians["bare"]
    yield shown("wire: a tensor of 16 MiB", size / median(loads.all_times["ours"]) / 1e6, "MB/s")
    speed = paired_ratio(bare, ours)  # the times are in reverse proportion to the speeds
    yield at_least("wire: its speed over that of a bare gRPC stream", speed, 0.7, "")
    yield at_most("wire: bytes on the wire over payload, 64 KiB each way", carried, 1.02, "")


def _percentile(times: list[float], of: float) -> float:
    return float(np.percentile(times, of))


def _seconds(act: Callable[[], object]) -> float:
    started = perf_counter()
    act()
    return perf_counter() - started


def _exchange_step(channel: Channel, tensor: Tensor) -> None:
    """Exchange the messages of one training step."""
    channel.send(pb.Step(gradient=DESCEND, next_batch=ASK), tensor)
    channel.receive(60)


def _carried(channel: Channel, relay: Relay, step: Tensor) -> int:
    """Return the bytes of some round trips with TLS and HTTP/2, without TCP and IP."""
    _exchange_step(channel, step)
    before = relay.carried
    for _ in range(TRIPS):
        _exchange_step(channel, step)
    channel.send(pb.Goodbye())
    return relay.carried - before


# --- the ends ------------------------------------------------------------------------------------


class _Bare:
    """The blocking client of a gRPC stream of raw bytes."""

    def __init__(self, port: int, ring: Keyring) -> None:
        credentials = grpc.ssl_channel_credentials(
            ring.authority_pem, ring.key_pem, ring.certificate_pem
        )
        name_override = ("grpc.ssl_target_name_override", SPOKE)
        self._channel = grpc.secure_channel(
            f"127.0.0.1:{port}", credentials, [*grpc_options(DEFAULT_TIMEOUTS), name_override]
        )
        self._out: SimpleQueue[bytes | None] = SimpleQueue()
        self._in = self._channel.stream_stream(_BARE)(iter(self._out.get, None))

    def trip(self, content: bytes) -> None:
        self._out.put(content)
        if len(next(self._in)) != len(content):
            raise ValueError("not an echo")

    def load(self, chunks: list[bytes]) -> None:
        """Send all chunks and receive one byte."""
        for chunk in chunks:
            self._out.put(chunk)
        self._out.put(b"!")
        next(self._in)

    def close(self) -> None:
        self._out.put(None)
        self._channel.close()


@dataclass
class Ends:
    """Connections to another process, and the relay that one of them goes through."""

    ours: Channel
    relayed: Channel
    bare: _Bare
    plain: socket.socket
    relay: Relay


@contextmanager
def _both_ends() -> Iterator[Ends]:
    spawned = get_context("spawn")
    parent, remote = spawned.Pipe()
    with ExitStack() as open_:
        keys = Path(open_.enter_context(TemporaryDirectory()))
        make_authority(keys, "trial")
        for name in NAMES:
            issue_certificate(keys, "trial", name)
        ring = read_keyring(keys, HUB)
        trusted = make_trust(ring, "trial", {})
        server = open_.enter_context(
            LineServer("127.0.0.1:0", ring, lambda leaf: trusted.check(leaf, datetime.now(UTC)), 2)
        )
        relay = open_.enter_context(Relay(server.port))
        peer = spawned.Process(
            target=_peer, args=(keys, server.port, relay.port, remote), daemon=True
        )
        peer.start()
        bare_port, plain_port = parent.recv()
        lines = {line.peer: line for line in (server.accept(30), server.accept(30))}
        bare = _Bare(bare_port, ring)
        open_.callback(bare.close)
        plain = open_.enter_context(socket.create_connection(("127.0.0.1", plain_port)))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours, relayed = (_channel(lines[name], Side.HUB, HUB, name) for name in NAMES[1:])
        yield Ends(ours, relayed, bare, plain, relay)
        parent.send(None)
        peer.join(30)


def _channel(line: Line, side: Side, me: str, peer: str) -> Channel:
    """Return a channel in the phase of training."""
    channel = Channel(line, side, ChannelTerms(me, peer, AGREEMENT), lambda crossing: None)
    channel._phases.phase, channel.session, channel.place = Phase.EMBEDDED, SESSION, PLACE
    return channel


def _peer(keys: Path, hub: int, relay: int, parent: Connection) -> None:
    """Main function of the other process: reply on both lines, and run both echo servers."""
    first, second = NAMES[1:]
    lines = [
        (name, dial_hub(f"127.0.0.1:{port}", read_keyring(keys, name), HUB))
        for name, port in ((first, hub), (second, relay))
    ]
    with _bare_server(read_keyring(keys, SPOKE)) as bare, _plain_server() as plain:
        parent.send((bare, plain))
        for name, line in lines:
            channel = _channel(line, Side.SPOKE, name, HUB)
            while isinstance((message := channel.receive(600)).body, pb.Step):
                large = message.tensors[0].nbytes > CHUNK
                channel.send(
                    pb.Embedding(), message.tensors[0][:1, :1] if large else message.tensors[0]
                )
    parent.recv()  # wait for the end of the measurement


@contextmanager
def _bare_server(ring: Keyring) -> Iterator[int]:
    def echo(frames: Iterator[bytes], _: grpc.ServicerContext) -> Iterator[bytes]:
        for frame in frames:
            if len(frame) < CHUNK:
                yield frame

    server = grpc.server(ThreadPoolExecutor(2), options=grpc_options(DEFAULT_TIMEOUTS))
    handler = grpc.method_handlers_generic_handler(
        "bare.Echo", {"Echo": grpc.stream_stream_rpc_method_handler(echo)}
    )
    server.add_generic_rpc_handlers((handler,))
    credentials = grpc.ssl_server_credentials(
        [(ring.key_pem, ring.certificate_pem)], ring.authority_pem, require_client_auth=True
    )
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    yield port
    server.stop(1.0)


@contextmanager
def _plain_server() -> Iterator[int]:
    def echo() -> None:
        with suppress(OSError), listener.accept()[0] as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            content = bytearray(4 * prod(STEP))
            while _fill(connection, content):
                connection.sendall(content)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=echo, daemon=True).start()
        yield listener.getsockname()[1]


def _plain_trip(connection: socket.socket, content: bytes) -> None:
    connection.sendall(content)
    _fill(connection, bytearray(len(content)))


def _fill(connection: socket.socket, content: bytearray) -> bool:
    rest = memoryview(content)
    while rest:
        received = connection.recv_into(rest)
        if not received:
            return False
        rest = rest[received:]
    return True
