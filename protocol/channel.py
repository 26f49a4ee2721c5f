"""A strict speaker on a line: turn, envelope, sequence, range, and the facts of what crossed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from hmac import compare_digest
from time import monotonic

from protocol import vfl_pb2
from protocol.envelope import (
    START,
    VERSION,
    Digest,
    Terms,
    Transcript,
    check,
    describe,
    task_name,
)
from protocol.errors import (
    Aborted,
    Equivocation,
    LocalProtocolError,
    PeerSilent,
    ProtocolError,
    RemoteProtocolError,
)
from protocol.frames import decode, encode
from protocol.line import Line
from protocol.message import Body, Message
from protocol.phases import Conversation, Phase, Side
from protocol.tensors import Tensor, check_range

_QUESTIONS = (vfl_pb2.Ask, vfl_pb2.Step, vfl_pb2.Show, vfl_pb2.Look)


class Way(Enum):
    """Whether we said it or heard it."""

    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Crossing:
    """One message that crossed the wire: a fact, not a judgement."""

    peer: str
    way: Way
    kind: str
    task: str
    rows: int  # of its first tensor; 0 without one
    payload: int  # bytes of its tensors
    size: int  # bytes of its frames
    waited: float  # seconds until it came; 0 for what we said


@dataclass
class Channel:
    """One conversation with one peer over ``line``; ``record`` is told every crossing."""

    line: Line
    side: Side
    terms: Terms
    record: Callable[[Crossing], None]
    session: bytes | None = None  # agreed in Welcome; compared in every message from then on
    place: vfl_pb2.Place = field(default_factory=lambda: START)
    _said: Transcript = field(default_factory=Transcript)
    _heard: Transcript = field(default_factory=Transcript)
    _reply: list[bytes] = field(default_factory=list)  # a spoke's answer to what it heard last
    _torn: bool = False  # a message of ours may be half said
    _incarnation: int | None = None
    _standing: vfl_pb2.Envelope | None = None
    _questions: deque[vfl_pb2.Place] = field(default_factory=deque)  # whose embedding is to come

    def __post_init__(self) -> None:
        if self.line.peer not in (None, self.terms.peer):
            raise LocalProtocolError(f"the line leads to {self.line.peer}, not {self.terms.peer}")
        self._conversation = Conversation(self.side)

    @property
    def phase(self) -> Phase:
        """Where the conversation stands."""
        return self._conversation.phase

    @property
    def incarnation(self) -> int | None:
        """Which start of the peer this is, as its first message said."""
        return self._incarnation

    def send(self, body: Body, *tensors: Tensor, timeout: float = 60.0) -> None:
        """Say ``body`` with ``tensors``; its turn is checked before a byte leaves.

        Raises:
            LocalProtocolError: it is not our turn, or the message is incomplete or too large.
            PeerSilent: the peer takes nothing for ``timeout`` seconds.
        """
        message = Message(body, tensors)
        with self._blame():
            self._conversation.sent(type(body))
            self._reply = []
            digest = self._say(encode(message, self._envelope(control=not tensors)), timeout)
        if self.side is Side.HUB and isinstance(body, _QUESTIONS):
            self._questions.append(self.place)
        self._said.add(digest)
        self._torn = False
        self._said.settle()  # while the network has the frames
        self._note(Way.OUT, message, digest.size, 0.0)

    def _say(self, frames: Iterable[bytes], timeout: float) -> Digest:
        """Send one message; until all of it is noted down it counts as torn.

        If a signal or a deadline comes between, nothing can follow what was sent.
        """
        digest = Digest()
        if self._torn:
            raise LocalProtocolError("an earlier message is half said; the line can only be closed")
        for frame in frames:
            self._torn = True
            self.line.send(frame, timeout)
            digest.add(frame)
            if self.side is Side.SPOKE:
                self._reply.append(frame)
        return digest

    def receive(self, timeout: float) -> Message:
        """The peer's next message, checked from the cheapest rule to the dearest.

        Raises:
            RemoteProtocolError: a rule is broken; it names peer, place and rule.
            Aborted: the peer ended the conversation and said why.
        """
        started = monotonic()
        with self._blame():
            self._heard.settle()  # while the peer has the word
            digest, envelope, message = self._next(timeout)
            check(
                envelope,
                self.terms,
                self.session,
                self._incarnation,
                self._heard,
                control=not message.tensors,
            )
            self._arrive(envelope, message.body)
            check_range(message.tensors, self.terms.magnitude)
            self._conversation.received(type(message.body))
            self._heard.add(digest)
            self._reply = []  # what the peer has gone on from, it has heard
            self._note(Way.IN, message, digest.size, monotonic() - started)
            if isinstance(message.body, vfl_pb2.Abort):
                reason = "".join(c if c.isprintable() else "?" for c in message.body.reason[:500])
                raise Aborted(f"gave up: {reason}", message.body.code)
        return message

    def abort(self, code: str, reason: str) -> None:
        """Tell the peer, if it can still hear, that it is over and why."""
        if self._torn:
            self.close()
            return
        with suppress(ProtocolError):
            self.send(vfl_pb2.Abort(code=code, reason=reason), timeout=1.0)

    def close(self) -> None:
        """Say no more; what was said still arrives."""
        self.line.close()

    def cut(self) -> None:
        """Drop the line at once, whatever was said."""
        self.line.cut()

    def _next(self, timeout: float) -> tuple[Digest, vfl_pb2.Envelope, Message]:
        """The next message that is not a repetition.

        A spoke answers a repetition as before. The hub does not: its answer would be a repetition
        to the spoke, which would repeat its own, and so on for ever.
        """
        deadline = monotonic() + timeout
        while True:
            digest = Digest()
            envelope, message = decode(partial(self._hear, digest, timeout))
            if envelope.seq != self._heard.seq or not self._heard.seq:
                return digest, envelope, message
            if not compare_digest(digest.value(), self._heard.last):
                raise Equivocation(f"said two things as message {envelope.seq}")
            self._repeat(timeout)
            if monotonic() > deadline:
                raise PeerSilent(f"said nothing new for {timeout:.3g} s")

    def _hear(self, digest: Digest, timeout: float) -> bytes:
        frame = self.line.receive(timeout)
        digest.add(frame)
        return frame

    def _repeat(self, timeout: float) -> None:
        said, self._reply = self._reply, []
        self._say(said, timeout)  # which keeps it for the next time
        self._torn = False

    def _arrive(self, envelope: vfl_pb2.Envelope, body: Body) -> None:
        """A spoke follows the hub's place; a reply must bear the place of its question.

        An Abort bears the place that the spoke had reached, which may lie behind the hub's.
        """
        if self.side is Side.SPOKE:
            self.place = envelope.place
            self.session = self.session or envelope.session or None
        elif envelope.place != self._asked(body) and not isinstance(body, vfl_pb2.Abort):
            raise RemoteProtocolError(f"answers for {describe(envelope.place)}")
        self._incarnation = envelope.incarnation

    def _asked(self, body: Body) -> vfl_pb2.Place:
        """The place of the question that ``body`` answers; two may be on their way at once."""
        if isinstance(body, vfl_pb2.Embedding) and self._questions:
            return self._questions.popleft()
        return self.place

    def _envelope(self, *, control: bool) -> vfl_pb2.Envelope:
        """Of our next message; what does not change between messages is written once."""
        if self._standing is None or self._standing.session != (self.session or b""):
            self._standing = vfl_pb2.Envelope(
                version=VERSION,
                session=self.session,
                agreement=self.terms.agreement,
                sender=self.terms.me,
                receiver=self.terms.peer,
                incarnation=self.terms.incarnation,
            )
        envelope = self._standing
        envelope.seq = self._said.seq + 1
        envelope.place.CopyFrom(self.place)
        if control:
            envelope.transcript = self._said.head
        else:
            envelope.ClearField("transcript")
        return envelope

    def _note(self, way: Way, message: Message, size: int, waited: float) -> None:
        rows = len(message.tensors[0]) if message.tensors else 0
        payload = sum(tensor.nbytes for tensor in message.tensors)
        task = task_name(self.place)
        self.record(Crossing(self.terms.peer, way, message.kind, task, rows, payload, size, waited))

    @contextmanager
    def _blame(self) -> Iterator[None]:
        """Name peer and place in every error."""
        try:
            yield
        except ProtocolError as error:
            error.peer, error.where = self.terms.peer, describe(self.place)
            raise
