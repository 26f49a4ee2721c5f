"""Receive queue of a gRPC stream: queues frames, and detects a dead peer by missing heartbeats."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from protocol.errors import PeerSilent, ProtocolError, RemoteProtocolError
from protocol.line import FrameQueue


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTimeouts:
    """Timeouts of a gRPC connection in seconds, and its clock. Both ends use the same timeouts."""

    heartbeat: float = 5.0  # a side that sends no frame for this long sends a heartbeat
    silence: float = 30.0  # a peer that sends neither a frame nor a heartbeat for this long is dead
    recheck: float = 5.0  # time between two checks of the certificates
    handshake: float = 20.0  # time limit of the TLS handshake at the hub
    keepalive: float = 30.0  # time between two HTTP/2 pings
    keepalive_timeout: float = 20.0  # time limit of the reply to a ping
    # Function that returns the current time, to check the validity of certificates.
    now: Callable[[], datetime] = _now


class ReceiveQueue:
    """The frames that one gRPC stream received; an empty frame is a heartbeat.

    gRPC calls ``put`` in the thread that read the frame from the network. ``put`` wakes a reader
    that waits for a frame; no further thread is needed.
    """

    def __init__(self, timeouts: LineTimeouts) -> None:
        self.frames, self._timeouts = FrameQueue(), timeouts
        self._created = self._received = monotonic()
        self._heartbeats = 0

    def put(self, frame: bytes) -> bool:
        """Append a frame; the result is always True, because gRPC requires a return value.

        The queue has room for the frame, because ``drain`` requests a frame only if there is room.
        """
        self._received = monotonic()
        with suppress(ProtocolError):  # this side has ended the stream
            if frame:
                self.frames.add(frame)
            else:
                self._count_heartbeat()
        return True

    def _count_heartbeat(self) -> None:
        """End the queue if the peer sends far more heartbeats than are due.

        After a network jam many heartbeats may arrive at once, but not more than were due.
        """
        self._heartbeats += 1
        due = (self._received - self._created) / self._timeouts.heartbeat
        if self._heartbeats > 100 + 5 * due:
            self.frames.end(RemoteProtocolError("the peer sent too many heartbeats"))

    def drain(self, requests: Iterator[object]) -> None:
        """Request frames from gRPC, whenever the queue has room, until the stream ends.

        Raises:
            ProtocolError: this side ended the queue.
        """
        for _ in requests:
            self.frames.wait_for_room(None)  # without a limit: the local reader is slow

    def get(self, timeout: float) -> bytes:
        """Return the next frame.

        Raises:
            PeerSilent: no frame arrived for ``timeout`` seconds, or heartbeats stopped.
            ProtocolError: the stream has ended, and all its frames were read.
        """
        began = monotonic()
        while True:
            dead = max(self._received, began) + self._timeouts.silence
            try:
                return self.frames.get(min(dead, began + timeout) - monotonic())
            except PeerSilent:
                if began + timeout <= dead:
                    raise PeerSilent(f"the peer sent no message for {timeout:.3g} s") from None
                if self._received + self._timeouts.silence <= dead:
                    raise PeerSilent(
                        f"the peer sent no heartbeat for {self._timeouts.silence:.3g} s",
                        "check whether the peer's process stopped or the network is down",
                    ) from None
