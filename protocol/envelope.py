"""The envelope of a message: sender, receiver, position in the run, hash of the transcript."""

from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

PROTOCOL_VERSION = 3  # version of the messages of this program
# Version of the messages of the program before this one, which this program also speaks.
PROTOCOL_BEFORE = 3
SEND_SECONDS = 60.0  # default time that a peer may take to accept a message
START_PLACE = vfl_pb2.Place(task=vfl_pb2.JOIN, epoch=0, step=0, microbatch=0)
_NEEDED = ("version", "agreement", "sender", "receiver", "incarnation", "seq", "place")
_TASKS = {task: name.lower().replace("_", "-") for name, task in vfl_pb2.Task.items() if task}
_PLACE = ("task", "epoch", "step", "microbatch")


@dataclass(frozen=True, slots=True)
class ChannelTerms:
    """The fixed values of one channel, with which every received message is compared."""

    me: str  # name of this party
    peer: str  # name of the other party
    agreement: bytes  # digest of the agreement, 32 bytes
    # Start number of this party; each start of its process gets a larger number.
    incarnation: int = 1
    magnitude: float = 1e4  # largest absolute value of a floating-point element
    # Seconds that the peer may take to accept a message.
    send_seconds: float = SEND_SECONDS


class FrameDigest:
    """Computes SHA-256 over the frames of one message, but only when ``value`` is called.

    Hashing a message takes about as long as its transfer over the network. The frames are therefore
    kept, and hashed while this side waits for the network. At most one sent and one received
    message wait to be hashed.
    """

    def __init__(self) -> None:
        self._frames, self.size = list[bytes](), 0

    def add(self, frame: bytes) -> None:
        """Append a frame."""
        self._frames.append(frame)
        self.size += len(frame)

    def value(self) -> bytes:
        """Return the digest of all frames, 32 bytes."""
        hashed = sha256()
        for frame in self._frames:
            hashed.update(frame)
        return hashed.digest()


class _Chain(NamedTuple):
    """State of a transcript; ``pending`` is a message that is counted but not hashed yet."""

    seq: int = 0
    head: bytes = bytes(32)
    last: bytes = bytes(32)
    pending: FrameDigest | None = None

    def hashed(self) -> "_Chain":
        if self.pending is None:
            return self
        last = self.pending.value()
        return _Chain(self.seq, sha256(self.head + last).digest(), last)


class Transcript:
    """Hash chain over all messages that were sent, or over all messages that were received.

    A signal handler may interrupt any method with an exception. Each method therefore changes the
    whole state in one assignment, so that the message Goodbye, which is sent after the signal,
    still contains the right hash.
    """

    def __init__(self) -> None:
        self._chain = _Chain()

    def add(self, digest: FrameDigest) -> None:
        """Append a message; the hash is computed by ``flush`` or when a property is read."""
        before = self._chain.hashed()
        self._chain = _Chain(before.seq + 1, before.head, before.last, digest)

    def flush(self) -> None:
        """Hash the newest message, unless the message has been hashed already."""
        self._chain = self._chain.hashed()

    @property
    def seq(self) -> int:
        """Number of messages."""
        return self._chain.seq

    @property
    def head(self) -> bytes:
        """Digest of the chain, 32 bytes."""
        self.flush()
        return self._chain.head

    @property
    def last(self) -> bytes:
        """Digest of the newest message, 32 bytes."""
        self.flush()
        return self._chain.last


def check_envelope(
    envelope: vfl_pb2.Envelope,
    terms: ChannelTerms,
    version: int,
    session: bytes | None,
    incarnation: int | None,
    received: Transcript,
    *,
    control: bool,
) -> None:
    """Compare every field of a received envelope with its expected value.

    Args:
        envelope: the received envelope.
        terms: the fixed values of the channel, where ``me`` is this party.
        version: version of the protocol, which the handshake chose.
        session: session ID; None before the handshake. If ``session`` is None, version, session ID
            and agreement are not compared: the handshake compares them, with a better error.
        incarnation: start number in the peer's first message; None before the first message.
        received: hash chain over the peer's earlier messages.
        control: whether the message has no tensor; the envelope of such a message must contain the
            digest of ``received``.

    Raises:
        RemoteProtocolError: a field is absent or has another value; the error names the field.
    """
    _check_present(envelope, control=control)
    if session is not None:
        _check_equal("version", envelope.version, version)
    _check_equal("sender", envelope.sender, terms.peer)
    _check_equal("receiver", envelope.receiver, terms.me)
    if incarnation is not None:
        _check_equal("incarnation", envelope.incarnation, incarnation)
    if session is not None:
        _check_bytes("session", envelope.session, session)
        _check_bytes("agreement", envelope.agreement, terms.agreement)
    _check_equal("seq", envelope.seq, received.seq + 1)
    if envelope.HasField("transcript"):
        _check_bytes("transcript", envelope.transcript, received.head)


def _check_present(envelope: vfl_pb2.Envelope, *, control: bool) -> None:
    needed = (*_NEEDED, "transcript") if control else _NEEDED
    place = envelope.place
    missing = [name for name in needed if not envelope.HasField(name)]
    missing += [f"place.{name}" for name in _PLACE if not place.HasField(name)]
    if missing:
        raise RemoteProtocolError(f"the envelope lacks {', '.join(missing)}")
    if place.task not in _TASKS:
        raise RemoteProtocolError(
            f"envelope.place.task is {place.task}, which is not a task of vfl.proto"
        )


def _check_equal(field: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise RemoteProtocolError(f"envelope.{field} is {found!r:.80}; expected {wanted!r}")


def _check_bytes(field: str, found: bytes, wanted: bytes) -> None:
    if not compare_digest(found, wanted):
        raise RemoteProtocolError(f"envelope.{field} differs from this party's {field}")


def task_name(place: vfl_pb2.Place) -> str:
    """Return the name of the task, for example ``fine-tune``."""
    return _TASKS[place.task]


def describe_place(place: vfl_pb2.Place) -> str:
    """Return the position in words, for example ``train, epoch 3, step 17``."""
    words = [task_name(place)]
    words += [f"epoch {place.epoch}"] if place.epoch else []
    words += [f"step {place.step}"] if place.step or place.epoch else []
    return ", ".join(words)
