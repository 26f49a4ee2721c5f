"""The envelope of a message: who says it to whom, where in the run, after what."""

from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import NamedTuple

from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError

VERSION = 1
START = vfl_pb2.Place(task=vfl_pb2.JOIN, epoch=0, step=0, microbatch=0)
_NEEDED = ("version", "agreement", "sender", "receiver", "incarnation", "seq", "place")
_TASKS = {task: name.lower().replace("_", "-") for name, task in vfl_pb2.Task.items() if task}
_PLACE = ("task", "epoch", "step", "microbatch")


@dataclass(frozen=True, slots=True)
class Terms:
    """What both ends of a channel are held to."""

    me: str
    peer: str
    agreement: bytes  # digest, 32 bytes
    incarnation: int = 1
    magnitude: float = 1e4  # largest absolute value of a floating-point element


class Digest:
    """SHA-256 over the frames of one message, hashed when there is time.

    Hashing takes about as long as the network does, so it must not stand between a frame and who
    waits for it. Until then the frames are kept: one message each way.
    """

    def __init__(self) -> None:
        self._frames, self.size = list[bytes](), 0

    def add(self, frame: bytes) -> None:
        """Append a frame."""
        self._frames.append(frame)
        self.size += len(frame)

    def value(self) -> bytes:
        """The digest of all frames."""
        hashed = sha256()
        for frame in self._frames:
            hashed.update(frame)
        return hashed.digest()


class _Chain(NamedTuple):
    """What went one way; ``newest`` is a message that counts already but is not yet hashed."""

    seq: int = 0
    head: bytes = bytes(32)
    last: bytes = bytes(32)
    newest: Digest | None = None

    def settled(self) -> "_Chain":
        if self.newest is None:
            return self
        last = self.newest.value()
        return _Chain(self.seq, sha256(self.head + last).digest(), last)


class Transcript:
    """The chain over all that went one way: each message's digest hashed onto those before.

    A signal may raise in the middle of any method: each changes the whole chain in one assignment,
    so that the goodbye which follows still bears the right head.
    """

    def __init__(self) -> None:
        self._chain = _Chain()

    def add(self, digest: Digest) -> None:
        """Append a message; it is hashed when somebody asks, or by ``settle``."""
        before = self._chain.settled()
        self._chain = _Chain(before.seq + 1, before.head, before.last, digest)

    def settle(self) -> None:
        """Hash what waits; to be called when there is time."""
        self._chain = self._chain.settled()

    @property
    def seq(self) -> int:
        """How many messages there were."""
        return self._chain.seq

    @property
    def head(self) -> bytes:
        """The chain's digest."""
        self.settle()
        return self._chain.head

    @property
    def last(self) -> bytes:
        """The digest of the newest message."""
        self.settle()
        return self._chain.last


def check(
    envelope: vfl_pb2.Envelope,
    terms: Terms,
    session: bytes | None,
    incarnation: int | None,
    heard: Transcript,
    *,
    control: bool,
) -> None:
    """Compare every field with what it must be.

    Args:
        envelope: as received.
        terms: ours; the peer's are the same with the names exchanged.
        session: None before it is agreed; agreements are compared from then on.
        incarnation: the peer's, as its first message said; None before.
        heard: what the peer said before this message.
        control: the message has no tensor, so that its envelope must bear the transcript.

    Raises:
        RemoteProtocolError: names the field.
    """
    _present(envelope, control=control)
    if envelope.version != VERSION:
        raise RemoteProtocolError(f"speaks version {envelope.version}; here it is {VERSION}")
    _equal("sender", envelope.sender, terms.peer)
    _equal("receiver", envelope.receiver, terms.me)
    if incarnation is not None:
        _equal("incarnation", envelope.incarnation, incarnation)
    if session is not None:
        _same("session", envelope.session, session)
        _same("agreement", envelope.agreement, terms.agreement)
    if envelope.seq != heard.seq + 1:
        raise RemoteProtocolError(f"sent message {envelope.seq} after message {heard.seq}")
    if envelope.HasField("transcript"):
        _same("transcript", envelope.transcript, heard.head)


def _present(envelope: vfl_pb2.Envelope, *, control: bool) -> None:
    needed = (*_NEEDED, "transcript") if control else _NEEDED
    place = envelope.place
    missing = [name for name in needed if not envelope.HasField(name)]
    missing += [f"place.{name}" for name in _PLACE if not place.HasField(name)]
    if missing:
        raise RemoteProtocolError(f"an envelope without {', '.join(missing)}")
    if place.task not in _TASKS:
        raise RemoteProtocolError(f"place.task is {place.task}, which is no task")


def _equal(field: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise RemoteProtocolError(f"{field} is {found!r:.80}; it must be {wanted!r}")


def _same(field: str, found: bytes, wanted: bytes) -> None:
    if not compare_digest(found, wanted):
        raise RemoteProtocolError(f"the {field} in the envelope is not ours")


def task_name(place: vfl_pb2.Place) -> str:
    """The task as a word: ``fine-tune``."""
    return _TASKS[place.task]


def describe(place: vfl_pb2.Place) -> str:
    """The place in words: ``train, epoch 3, step 17``."""
    words = [task_name(place)]
    words += [f"epoch {place.epoch}"] if place.epoch else []
    words += [f"step {place.step}"] if place.step or place.epoch else []
    return ", ".join(words)
