"""The hearing end of a stream: frames are queued, signs of life only noted."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic

from protocol.errors import PeerSilent, ProtocolError, RemoteProtocolError
from protocol.line import Mailbox


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How long a line over gRPC waits for what, in seconds; both ends have the same habits."""

    beat: float = 5.0  # without a word from us; then comes a sign of life
    silence: float = 30.0  # without any sign of life from the peer; then it is given up
    recheck: float = 5.0  # between two looks at the certificates
    handshake: float = 20.0  # for TLS, at the hub
    keepalive: float = 30.0  # between pings of HTTP/2
    keepalive_timeout: float = 20.0  # for the answer to one
    now: Callable[[], datetime] = _now  # for the certificates


class Ear:
    """What comes in on one stream.

    gRPC calls ``arrived`` in the thread that took the frame off the network: the party that waits
    for it is woken at once, by no thread between.
    """

    def __init__(self, habits: Habits) -> None:
        self.inbox, self._habits = Mailbox(), habits
        self._born = self._heard = monotonic()
        self._beats = 0

    def arrived(self, frame: bytes) -> bool:
        """Take a frame in; there is room, since ``drain`` asks for the next one only then."""
        self._heard = monotonic()
        with suppress(ProtocolError):  # it was we who hung up
            if frame:
                self.inbox.add(frame)
            else:
                self._beat()
        return True

    def _beat(self) -> None:
        """A sign of life: many may come at once after a jam, but never many more than were due."""
        self._beats += 1
        if self._beats > 100 + 5 * (self._heard - self._born) / self._habits.beat:
            self.inbox.end(RemoteProtocolError("sends signs of life without end"))

    def drain(self, frames: Iterator[object]) -> None:
        """Ask for frames, while there is room, until the stream ends; raises our own end."""
        for _ in frames:
            self.inbox.wait_for_room(None)  # for us: it is we who do not read

    def listen(self, timeout: float) -> bytes:
        """The next frame.

        Raises:
            PeerSilent: none came for ``timeout`` seconds, or no sign of life for too long.
        """
        began = monotonic()
        while True:
            given_up = max(self._heard, began) + self._habits.silence
            try:
                return self.inbox.get(min(given_up, began + timeout) - monotonic())
            except PeerSilent:
                if began + timeout <= given_up:
                    raise PeerSilent(f"silent for {timeout:.3g} s") from None
                if self._heard + self._habits.silence <= given_up:
                    told = f"no sign of life for {self._habits.silence:.3g} s"
                    raise PeerSilent(told, "did it stop, or is the network down?") from None
