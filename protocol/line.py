"""A line is a connection that exchanges frames with one peer; every transport is a ``Line``."""

from queue import Empty, SimpleQueue
from threading import Condition
from typing import Protocol

from protocol.errors import LineBroken, PeerSilent, ProtocolError

# Frames that may wait on each side. A full queue blocks the writer, so that memory is bounded.
MAX_QUEUED_FRAMES = 16


class Line(Protocol):
    """Sends frames to one peer and receives this peer's frames; frames stay in order."""

    @property
    def peer(self) -> str | None:
        """Name of the peer as verified by the transport; None if the transport verifies no name."""

    def send(self, frame: bytes, timeout: float) -> None:
        """Send one frame.

        Raises:
            PeerSilent: the peer accepted no frame for ``timeout`` seconds.
            LineBroken: the connection is closed.
        """

    def receive(self, timeout: float) -> bytes:
        """Return the next frame.

        Raises:
            PeerSilent: no frame arrived for ``timeout`` seconds.
            LineBroken: the connection is closed.
        """

    def close(self) -> None:
        """Stop sending; frames that were sent still arrive."""

    def cut(self) -> None:
        """Close both directions immediately, so that the peer may open a new connection."""


class FrameQueue:
    """A queue of frames with bounded size; ``end`` stops readers and writers with an error.

    Frames go through ``SimpleQueue``, which is written in C and wakes a reader faster than a
    condition variable does. Only a writer waits on a condition variable, and only while the queue
    is full.
    """

    def __init__(self) -> None:
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()  # None: the end
        self._end: ProtocolError | None = None
        self._room = Condition()
        self._crowded = False  # a writer may be waiting for room

    def put(self, frame: bytes, timeout: float) -> None:
        """Wait until the queue has room, then append a frame.

        Raises:
            PeerSilent: there was no room for ``timeout`` seconds.
            ProtocolError: ``end`` was called, before this call or while this call waited for room.
        """
        if not self.wait_for_room(timeout):
            raise PeerSilent(
                f"the peer accepted no message for {timeout:.3g} s",
                "check whether the peer's process is running and the network works",
            )
        self._frames.put(frame)

    def add(self, frame: bytes) -> None:
        """Append a frame without waiting for room.

        Raises:
            ProtocolError: ``end`` was called.
        """
        if self._end is not None:
            raise self._end
        self._frames.put(frame)

    def wait_for_room(self, timeout: float | None) -> bool:
        """Wait until the queue has room; return False if it has none after ``timeout`` seconds.

        If ``timeout`` is None, the wait has no limit.

        Raises:
            ProtocolError: ``end`` was called.
        """
        if self._frames.qsize() >= MAX_QUEUED_FRAMES:
            with self._room:
                if not self._room.wait_for(self._has_room, timeout):
                    return False
        if self._end is not None:
            raise self._end
        return True

    def _has_room(self) -> bool:
        self._crowded = True  # set before the size is read: a reader that comes later notifies us
        return self._end is not None or self._frames.qsize() < MAX_QUEUED_FRAMES

    def end(self, why: ProtocolError | None = None) -> None:
        """End the queue; readers get the frames that are left, then the error of the first call."""
        with self._room:
            self._end = self._end or why or LineBroken("closed the connection")
            self._room.notify_all()
        self._frames.put(None)

    def get(self, timeout: float) -> bytes:
        """Return the next frame.

        Raises:
            PeerSilent: no frame arrived for ``timeout`` seconds.
            ProtocolError: ``end`` was called, and no frame is left.
        """
        try:
            frame = self._frames.get(timeout=max(timeout, 0.0))
        except Empty:
            raise PeerSilent(f"the peer sent no message for {timeout:.3g} s") from None
        if self._crowded:
            with self._room:
                self._crowded = False
                self._room.notify_all()
        if frame is None:
            self._frames.put(None)  # the next reader finds the end as well
            raise self._end or LineBroken("closed the connection")
        return frame


class MemoryLine:
    """One end of a connection between two parties in the same process."""

    def __init__(self, inbox: FrameQueue, outbox: FrameQueue, peer: str | None) -> None:
        self._inbox, self._outbox, self.peer = inbox, outbox, peer

    def send(self, frame: bytes, timeout: float) -> None:
        """Put one frame into the peer's inbox."""
        self._outbox.put(frame, timeout)

    def receive(self, timeout: float) -> bytes:
        """Return the next frame."""
        return self._inbox.get(timeout)

    def close(self) -> None:
        """Stop sending to the peer."""
        self._outbox.end()

    def cut(self) -> None:
        """End both directions immediately."""
        self._outbox.end()
        self._inbox.end()


def memory_lines(spoke: str | None = None) -> tuple[MemoryLine, MemoryLine]:
    """Return both ends of a new connection: the hub's and the spoke's.

    ``spoke`` is the name of the spoke.
    """
    up, down = FrameQueue(), FrameQueue()
    return MemoryLine(up, down, spoke), MemoryLine(down, up, None)
