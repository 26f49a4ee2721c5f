"""A strict speaker on a line: turn, envelope, sequence, range, and the facts of what crossed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from hmac import compare_digest
from time import monotonic

from protocol import vfl_pb2
from protocol.envelope import START, VERSION, Terms, Transcript, check, describe, task_name
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


class _Intake:
    """The frames of one message as they come, counted and hashed."""

    def __init__(self, line: Line, timeout: float) -> None:
        self._line, self._timeout = line, timeout
        self._digest, self.size = sha256(), 0

    def __call__(self) -> bytes:
        frame = self._line.receive(self._timeout)
        self._digest.update(frame)
        self.size += len(frame)
        return frame

    @property
    def digest(self) -> bytes:
        return self._digest.digest()


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
    _reply: list[bytes] = field(default_factory=list)  # frames of what we said last
    _incarnation: int | None = None

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
            self._reply = list(encode(message, self._envelope(control=not tensors)))
            digest = sha256()
            for frame in self._reply:
                digest.update(frame)
                self.line.send(frame, timeout)
        self._said.add(digest.digest())
        self._note(Way.OUT, message, sum(map(len, self._reply)), 0.0)

    def receive(self, timeout: float) -> Message:
        """The peer's next message, checked from the cheapest rule to the dearest.

        Raises:
            RemoteProtocolError: a rule is broken; it names peer, place and rule.
            Aborted: the peer ended the conversation and said why.
        """
        started = monotonic()
        with self._blame():
            intake, envelope, message = self._next(timeout)
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
            self._heard.add(intake.digest)
            self._note(Way.IN, message, intake.size, monotonic() - started)
            if isinstance(message.body, vfl_pb2.Abort):
                reason = "".join(c if c.isprintable() else "?" for c in message.body.reason[:500])
                raise Aborted(f"gave up: {reason}", message.body.code)
        return message

    def abort(self, code: str, reason: str) -> None:
        """Tell the peer, if it can still hear, that it is over and why."""
        with suppress(ProtocolError):
            self.send(vfl_pb2.Abort(code=code, reason=reason), timeout=1.0)

    def close(self) -> None:
        """Say no more; what was said still arrives."""
        self.line.close()

    def _next(self, timeout: float) -> tuple[_Intake, vfl_pb2.Envelope, Message]:
        """The next message that is not a repetition.

        A spoke answers a repetition as before. The hub does not: its answer would be a repetition
        to the spoke, which would repeat its own, and so on for ever.
        """
        deadline = monotonic() + timeout
        while True:
            intake = _Intake(self.line, timeout)
            envelope, message = decode(intake)
            if envelope.seq != self._heard.seq or not self._heard.seq:
                return intake, envelope, message
            if not compare_digest(intake.digest, self._heard.last):
                raise Equivocation(f"said two things as message {envelope.seq}")
            if self.side is Side.SPOKE:
                for frame in self._reply:
                    self.line.send(frame, timeout)
            if monotonic() > deadline:
                raise PeerSilent(f"said nothing new for {timeout:.3g} s")

    def _arrive(self, envelope: vfl_pb2.Envelope, body: Body) -> None:
        """A spoke follows the hub's place; a reply must bear the place of its question.

        An Abort bears the place that the spoke had reached, which may lie behind the hub's.
        """
        if self.side is Side.SPOKE:
            self.place = envelope.place
            self.session = self.session or envelope.session or None
        elif envelope.place != self.place and not isinstance(body, vfl_pb2.Abort):
            raise RemoteProtocolError(f"answers for {describe(envelope.place)}")
        self._incarnation = envelope.incarnation

    def _envelope(self, *, control: bool) -> vfl_pb2.Envelope:
        return vfl_pb2.Envelope(
            version=VERSION,
            session=self.session,
            agreement=self.terms.agreement,
            sender=self.terms.me,
            receiver=self.terms.peer,
            incarnation=self.terms.incarnation,
            seq=self._said.seq + 1,
            transcript=self._said.head if control else None,
            place=self.place,
        )

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
