"""A line: the dumb carrier of frames to one peer. The one seam to the network."""

from collections import deque
from threading import Condition
from typing import Protocol

from protocol.errors import LineBroken, PeerSilent, ProtocolError

QUEUE = 16  # frames that may wait on each side: a slow reader makes the writer wait, never grow


class Line(Protocol):
    """Carries frames, in order, to one peer and back."""

    @property
    def peer(self) -> str | None:
        """The party that the transport proved at the other end; None where it cannot know."""

    def send(self, frame: bytes, timeout: float) -> None:
        """Hand over one frame; raises ``PeerSilent`` when the peer takes none for ``timeout`` s."""

    def receive(self, timeout: float) -> bytes:
        """The next frame; raises ``PeerSilent`` after ``timeout`` s, ``LineBroken`` at the end."""

    def close(self) -> None:
        """Say no more; what was sent still arrives."""


class Mailbox:
    """A bounded queue of frames with an end."""

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._end: ProtocolError | None = None
        self._changed = Condition()

    def put(self, frame: bytes, timeout: float | None = None) -> None:
        """Add a frame; raises ``PeerSilent`` when none was taken for ``timeout`` seconds.

        After the end it raises at once, even if it was waiting: nobody will take the frame.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._end or len(self._frames) < QUEUE, timeout):
                raise PeerSilent(f"takes no message for {timeout:.3g} s")
            if self._end is not None:
                raise self._end
            self._frames.append(frame)
            self._changed.notify_all()

    def end(self, why: ProtocolError | None = None) -> None:
        """No more frames come; what waits is still delivered."""
        with self._changed:
            self._end = self._end or why or LineBroken("closed the connection")
            self._changed.notify_all()

    def get(self, timeout: float | None = None) -> bytes:
        """The next frame; after the end always the error that ``end`` was told."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._frames or self._end, timeout):
                raise PeerSilent(f"silent for {timeout:.3g} s")
            if self._frames:
                self._changed.notify_all()
                return self._frames.popleft()
            raise self._end or LineBroken("closed the connection")


class MemoryLine:
    """One end of a line inside this process."""

    def __init__(self, inbox: Mailbox, outbox: Mailbox, peer: str | None) -> None:
        self._inbox, self._outbox, self._peer = inbox, outbox, peer

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


def memory_lines(spoke: str | None = None) -> tuple[MemoryLine, MemoryLine]:
    """The hub's end and the spoke's end of a new line; ``spoke`` is what the hub knows it by."""
    up, down = Mailbox(), Mailbox()
    return MemoryLine(up, down, spoke), MemoryLine(down, up, None)
