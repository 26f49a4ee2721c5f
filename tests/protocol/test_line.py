"""Lines: frames keep their order, full queues block the sender, and the end wakes a waiter."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from time import monotonic

import pytest

from protocol.errors import IdentityError, LineBroken, PeerSilent
from protocol.line import MAX_QUEUED_FRAMES, FrameQueue, Line, memory_lines
from tests.conftest import Lines, grpc_lines


def test_frames_keep_their_order(lines: Lines) -> None:
    for number in range(MAX_QUEUED_FRAMES):
        lines.hub.send(bytes([number]), 5)
    assert [lines.spoke.receive(5) for _ in range(MAX_QUEUED_FRAMES)] == [
        bytes([n]) for n in range(MAX_QUEUED_FRAMES)
    ]


def test_both_directions_at_once(lines: Lines) -> None:
    lines.hub.send(b"down", 5)
    lines.spoke.send(b"up", 5)
    assert (lines.hub.receive(5), lines.spoke.receive(5)) == (b"up", b"down")


def test_writer_times_out_on_a_slow_reader() -> None:
    hub, spoke = memory_lines()
    for _ in range(MAX_QUEUED_FRAMES):
        hub.send(b"x", 1)
    with pytest.raises(PeerSilent, match=r"accepted no message for 0\.01 s"):
        hub.send(b"x", 0.01)
    spoke.receive(1)
    hub.send(b"x", 1)


def test_waiting_writer_continues_when_there_is_room() -> None:
    queue, ready = FrameQueue(), Barrier(2)
    for _ in range(MAX_QUEUED_FRAMES):
        queue.put(b"x", 1)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: (ready.wait(5), queue.put(b"last", 5)))
        ready.wait(5)
        assert [queue.get(5) for _ in range(MAX_QUEUED_FRAMES + 1)][-1] == b"last"
        writing.result(5)


def test_end_wakes_a_waiting_reader() -> None:
    queue, ready = FrameQueue(), Barrier(2)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: (ready.wait(5), queue.get(60)))
        ready.wait(5)
        queue.end()
        with pytest.raises(LineBroken, match="closed the connection"):
            reading.result(5)


def test_end_wakes_a_waiting_writer() -> None:
    """The end of the queue must not wait for the timeout."""
    queue, ready = FrameQueue(), Barrier(2)
    for _ in range(MAX_QUEUED_FRAMES):
        queue.put(b"x", 1)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: (ready.wait(5), queue.put(b"late", 60)))
        ready.wait(5)
        queue.end(IdentityError("refused"))
        with pytest.raises(IdentityError, match="refused"):
            writing.result(5)


def test_waiting_frames_are_delivered_before_the_first_error() -> None:
    queue = FrameQueue()
    queue.put(b"last words", 1)
    queue.end(IdentityError("refused"))
    queue.end(LineBroken("closed the connection"))
    assert queue.get(1) == b"last words"
    for _ in range(2):
        with pytest.raises(IdentityError, match="refused"):
            queue.get(1)


def send_fails_soon(line: Line) -> None:
    """Check that sending fails long before its timeout."""
    started = monotonic()
    with pytest.raises(LineBroken):
        send_forever(line)
    assert monotonic() - started < 5


def send_forever(line: Line) -> None:
    while True:
        line.send(b"x", 60)


def test_hub_that_sends_notices_a_lost_spoke(keys: Path, tmp_path: Path) -> None:
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as lines:
        lines.spoke.cut()
        with pytest.raises(LineBroken):
            lines.hub.receive(5)
        send_fails_soon(lines.hub)


def test_spoke_that_sends_notices_a_lost_hub(keys: Path, tmp_path: Path) -> None:
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as lines:
        lines.hub.cut()
        with pytest.raises(LineBroken):
            lines.spoke.receive(5)
        send_fails_soon(lines.spoke)


def test_hub_knows_the_spoke_by_its_certificate(lines: Lines) -> None:
    assert lines.hub.peer == "shop"
    assert lines.spoke.peer is None
