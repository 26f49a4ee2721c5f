"""A line: the dumb carrier of frames to one peer. The one seam to the network."""

from queue import Empty, SimpleQueue
from threading import Condition
from time import monotonic
from typing import Protocol

from protocol.errors import LineBroken, PeerSilent, ProtocolError

QUEUE = 16  # frames that may wait on each side: a slow reader makes the writer wait, never grow


class Line(Protocol):
    """Carries frames, in order, to one peer and back."""

    @property
    def peer(self) -> str | None:
        """The party that the transport proved at the other end; None where it cannot know."""

    @property
    def since(self) -> float:
        """When it was made, by the monotonic clock."""

    def send(self, frame: bytes, timeout: float) -> None:
        """Hand over one frame; raises ``PeerSilent`` when the peer takes none for ``timeout`` s."""

    def receive(self, timeout: float) -> bytes:
        """The next frame; raises ``PeerSilent`` after ``timeout`` s, ``LineBroken`` at the end."""

    def close(self) -> None:
        """Say no more; what was sent still arrives."""

    def cut(self) -> None:
        """Drop the line at once: the peer may take a new one."""


class Mailbox:
    """A bounded queue of frames with an end.

    Frames go through a queue made in C, which wakes a reader faster than a condition does; only a
    writer who finds no room waits on one.
    """

    def __init__(self) -> None:
        self._frames: SimpleQueue[bytes | None] = SimpleQueue()  # None: the end
        self._end: ProtocolError | None = None
        self._room = Condition()
        self._crowded = False  # somebody may be waiting for room

    def put(self, frame: bytes, timeout: float) -> None:
        """Add a frame; raises ``PeerSilent`` when none was taken for ``timeout`` seconds.

        After the end it raises at once, even if it was waiting: nobody will take the frame.
        """
        if not self.wait_for_room(timeout):
            raise PeerSilent(f"takes no message for {timeout:.3g} s")
        self._frames.put(frame)

    def add(self, frame: bytes) -> None:
        """Add a frame although there may be no room."""
        if self._end is not None:
            raise self._end
        self._frames.put(frame)

    def wait_for_room(self, timeout: float | None) -> bool:
        """Whether there was room within ``timeout`` seconds; raises the end."""
        if self._frames.qsize() >= QUEUE:
            with self._room:
                if not self._room.wait_for(self._has_room, timeout):
                    return False
        if self._end is not None:
            raise self._end
        return True

    def _has_room(self) -> bool:
        self._crowded = True  # before it looks: whoever takes a frame from now on tells us
        return self._end is not None or self._frames.qsize() < QUEUE

    def end(self, why: ProtocolError | None = None) -> None:
        """No more frames come; what waits is still delivered."""
        with self._room:
            self._end = self._end or why or LineBroken("closed the connection")
            self._room.notify_all()
        self._frames.put(None)

    def get(self, timeout: float) -> bytes:
        """The next frame; after the end always the error that ``end`` was told."""
        try:
            frame = self._frames.get(timeout=max(timeout, 0.0))
        except Empty:
            raise PeerSilent(f"silent for {timeout:.3g} s") from None
        if self._crowded:
            with self._room:
                self._crowded = False
                self._room.notify_all()
        if frame is None:
            self._frames.put(None)  # for whoever asks next
            raise self._end or LineBroken("closed the connection")
        return frame


class MemoryLine:
    """One end of a line inside this process."""

    def __init__(self, inbox: Mailbox, outbox: Mailbox, peer: str | None) -> None:
        self._inbox, self._outbox, self._peer = inbox, outbox, peer
        self._since = monotonic()

    @property
    def since(self) -> float:
        """See ``Line``."""
        return self._since

    @property
    def peer(self) -> str | None:
        """The name given when the line was made."""
        return self._peer

    def send(self, frame: bytes, timeout: float) -> None:
        """Put one frame into the peer's inbox."""
        self._outbox.put(frame, timeout)

    def receive(self, timeout: float) -> bytes:
        """Take the next frame."""
        return self._inbox.get(timeout)

    def close(self) -> None:
        """End our direction."""
        self._outbox.end()

    def cut(self) -> None:
        """End both directions."""
        self._outbox.end()
        self._inbox.end()


def memory_lines(spoke: str | None = None) -> tuple[MemoryLine, MemoryLine]:
    """The hub's end and the spoke's end of a new line; ``spoke`` is what the hub knows it by."""
    up, down = Mailbox(), Mailbox()
    return MemoryLine(up, down, spoke), MemoryLine(down, up, None)
