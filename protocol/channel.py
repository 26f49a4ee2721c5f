"""A channel: sends and receives messages over one connection, and checks all protocol rules."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from hmac import compare_digest
from math import inf
from time import monotonic

from protocol import vfl_pb2
from protocol.envelope import (
    PROTOCOL_BEFORE,
    START_PLACE,
    ChannelTerms,
    FrameDigest,
    Transcript,
    check_envelope,
    describe_place,
    task_name,
)
from protocol.errors import (
    Aborted,
    Equivocation,
    IdentityError,
    LocalProtocolError,
    PeerSilent,
    ProtocolError,
    RemoteProtocolError,
)
from protocol.frames import decode_message, encode_message
from protocol.line import Line
from protocol.message import Body, Message
from protocol.phases import Phase, PhaseTracker, Side
from protocol.tensors import Tensor, check_range

_BATCH_REQUESTS = (vfl_pb2.BatchRequest, vfl_pb2.Step, vfl_pb2.Evaluate, vfl_pb2.Predict)


class MessageDirection(Enum):
    """The direction of a message: whether this party sent or received it."""

    OUT = "out"
    IN = "in"


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """Size, kind and task of one message that was sent or received."""

    peer: str
    direction: MessageDirection
    kind: str  # the message's name in ``vfl.proto``
    task: str  # name of the task in the run during which it was sent, for example ``fine-tune``
    rows: int  # number of rows of the first tensor; 0 without a tensor
    payload: int  # size of the tensors in bytes
    size: int  # size of the frames in bytes


@dataclass
class Channel:
    """Sends numbered messages to one peer over one connection, and receives the peer's messages."""

    line: Line  # the connection that carries the frames
    side: Side  # whether this party is the hub or a spoke
    # The names of both sides, and other values with which every message is checked.
    terms: ChannelTerms
    # Function that is called after every sent or received message, with its record.
    record: Callable[[MessageRecord], None]
    session: bytes | None = None  # session ID from the handshake; None before the handshake
    version: int = PROTOCOL_BEFORE  # of the protocol; the hub chooses it in the handshake
    # Position in the run that is written into the next message to send.
    place: vfl_pb2.Place = field(default_factory=lambda: START_PLACE)
    _sent: Transcript = field(default_factory=Transcript)
    _received: Transcript = field(default_factory=Transcript)
    _reply: list[bytes] = field(default_factory=list)  # a spoke's reply to its last request
    _torn: bool = False  # the last message was perhaps sent only in part
    _incarnation: int | None = None
    _next_envelope: vfl_pb2.Envelope | None = None
    # Positions of the requests whose embeddings have not arrived yet.
    _requested: deque[vfl_pb2.Place] = field(default_factory=deque)
    # Checks that the peer is still trusted; the time in seconds between two calls, and of the next.
    _check_peer: Callable[[], object] = field(default=lambda: None, repr=False)
    _check_every: float = inf
    _next_check: float = inf

    def __post_init__(self) -> None:
        if self.line.peer not in (None, self.terms.peer):
            raise LocalProtocolError(
                f"the connection leads to {self.line.peer}; expected {self.terms.peer}"
            )
        self._phases = PhaseTracker(self.side)

    @property
    def phase(self) -> Phase:
        """The current phase of the conversation with the peer."""
        return self._phases.phase

    @property
    def incarnation(self) -> int | None:
        """The peer's start number, from its first message; None before the first message."""
        return self._incarnation

    @property
    def sent_transcript(self) -> bytes:
        """Hash chain over all messages that this side has sent in the session, 32 bytes."""
        return self._sent.head

    def send(self, body: Body, *tensors: Tensor, timeout: float | None = None) -> None:
        """Send ``body`` with ``tensors`` of any shape; default timeout: ``terms.send_seconds``.

        Raises:
            LocalProtocolError: the message is illegal in this phase, incomplete or too large; no
                byte was sent.
            PeerSilent: the peer accepted no frame for ``timeout`` seconds.
            LineBroken: the connection is closed.
        """
        message = Message(body, tensors)
        with self.locate_errors():
            self._phases.sent(type(body))
            self._reply = []
            frames = encode_message(message, self._envelope(control=not tensors))
            digest = self._send_frames(frames, timeout or self.terms.send_seconds)
        if self.side is Side.HUB and isinstance(body, _BATCH_REQUESTS):
            self._requested.append(self.place)
        self._sent.add(digest)
        self._torn = False
        self._sent.flush()  # while the network transmits the frames
        self._record(MessageDirection.OUT, message, digest.size)

    def _send_frames(self, frames: Iterable[bytes], timeout: float) -> FrameDigest:
        """Send the frames of one message; the caller resets ``_torn`` once it has recorded them.

        If a signal or a timeout interrupts the message, nothing may be sent after it.
        """
        digest = FrameDigest()
        if self._torn:
            raise LocalProtocolError(
                "an earlier message was sent only in part, so no other message can follow",
                "close the connection",
            )
        for frame in frames:
            self._torn = True
            self.line.send(frame, timeout)
            digest.add(frame)
            if self.side is Side.SPOKE:
                self._reply.append(frame)
        return digest

    def receive_whenever(self, interval: float) -> Message:
        """Return the peer's next message, however long it takes; a broken line ends the wait.

        ``interval`` is how often the wait starts anew, in seconds.

        Raises:
            RemoteProtocolError: the message breaks a rule.
            LineBroken: the connection is closed.
            IdentityError: the peer is no longer trusted, see ``keep_checking``.
            Aborted: the peer sent Abort.
        """
        while True:
            try:
                return self.receive(interval)
            except PeerSilent:
                continue

    def receive(self, timeout: float) -> Message:
        """Receive and check the peer's next message, and return the message.

        Raises:
            RemoteProtocolError: the message breaks a rule; the error names peer, place and rule.
            PeerSilent: no message arrived for ``timeout`` seconds.
            LineBroken: the connection is closed.
            IdentityError: the peer is no longer trusted, see ``keep_checking``.
            Aborted: the peer sent Abort.
        """
        with self.locate_errors():
            self._received.flush()  # while this side waits for the peer
            digest, envelope, message = self._next(timeout)
            check_envelope(
                envelope,
                self.terms,
                self.version,
                self.session,
                self._incarnation,
                self._received,
                control=not message.tensors,
            )
            self._check_place(envelope, message.body)
            check_range(message.tensors, self.terms.magnitude)
            self._phases.received(type(message.body))
            self._received.add(digest)
            self._reply = []  # the peer has received the reply, because it sent the next message
            self._record(MessageDirection.IN, message, digest.size)
            if isinstance(message.body, vfl_pb2.Abort):
                reason = "".join(c if c.isprintable() else "?" for c in message.body.reason[:500])
                raise Aborted(f"aborted: {reason}", message.body.code)
        return message

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Add the peer and the position in the run to every protocol error of a ``with`` block.

        ``send`` and ``receive`` do so themselves. Whoever carries out a message of the peer needs
        it for the errors about the content of the message.
        """
        try:
            yield
        except ProtocolError as error:
            error.peer, error.where = self.terms.peer, describe_place(self.place)
            raise

    def abort(self, code: str, reason: str) -> None:
        """Send Abort, if the peer can still receive it."""
        if self._torn:
            self.close()
            return
        with suppress(ProtocolError):
            self.send(vfl_pb2.Abort(code=code, reason=reason), timeout=1.0)

    def keep_checking(self, check: Callable[[], object], seconds: float) -> None:
        """Call ``check`` when messages arrive, at most every ``seconds`` s.

        ``check`` raises ``IdentityError`` if the peer is no longer trusted. Then the connection is
        cut, and ``receive`` raises the error.
        """
        self._check_peer, self._check_every = check, seconds
        self._next_check = monotonic() + seconds

    def close(self) -> None:
        """Stop sending; messages that were sent still arrive."""
        self.line.close()

    def cut(self) -> None:
        """Close both directions of the connection immediately."""
        self.line.cut()

    def _next(self, timeout: float) -> tuple[FrameDigest, vfl_pb2.Envelope, Message]:
        """Return the next message that is not a repetition of the last one.

        A spoke sends its reply again after a repetition. The hub does not: its message would be a
        repetition for the spoke, which would send its reply again, and so on for ever.
        """
        deadline = monotonic() + timeout
        while True:
            digest = FrameDigest()
            envelope, message = decode_message(partial(self._receive_frame, digest, timeout))
            if envelope.seq != self._received.seq or not self._received.seq:
                return digest, envelope, message
            if not compare_digest(digest.value(), self._received.last):
                raise Equivocation(
                    f"the peer sent two different messages with sequence number {envelope.seq}"
                )
            self._repeat_reply(timeout)
            if monotonic() > deadline:
                raise PeerSilent(f"the peer sent only repeated messages for {timeout:.3g} s")

    def _receive_frame(self, digest: FrameDigest, timeout: float) -> bytes:
        frame = self.line.receive(timeout)
        if monotonic() > self._next_check:
            self._next_check = monotonic() + self._check_every
            try:
                self._check_peer()
            except IdentityError:
                self.cut()
                raise
        digest.add(frame)
        return frame

    def _repeat_reply(self, timeout: float) -> None:
        frames, self._reply = self._reply, []
        self._send_frames(frames, timeout)  # this fills ``_reply`` again
        self._torn = False

    def _check_place(self, envelope: vfl_pb2.Envelope, body: Body) -> None:
        """Take over the hub's position at a spoke; at the hub, check that it is the request's.

        A spoke's Abort carries the spoke's position, which may lie behind the hub's.
        """
        if self.side is Side.SPOKE:
            self.place = envelope.place
            if self.session is None and envelope.session:
                self.session, self.version = envelope.session, envelope.version
        else:
            wanted = self._requested_place(body)
            if envelope.place != wanted and not isinstance(body, vfl_pb2.Abort):
                raise RemoteProtocolError(
                    f"the reply is for {_whole(envelope.place)}; expected {_whole(wanted)}"
                )
        self._incarnation = envelope.incarnation

    def _requested_place(self, body: Body) -> vfl_pb2.Place:
        """Return the position of the request that ``body`` replies to; two may be under way."""
        if isinstance(body, vfl_pb2.Embedding) and self._requested:
            return self._requested.popleft()
        return self.place

    def _envelope(self, *, control: bool) -> vfl_pb2.Envelope:
        """Return the envelope of the next message; its constant fields are written only once."""
        if self._next_envelope is None or self._next_envelope.session != (self.session or b""):
            self._next_envelope = vfl_pb2.Envelope(
                version=self.version,
                session=self.session,
                agreement=self.terms.agreement,
                sender=self.terms.me,
                receiver=self.terms.peer,
                incarnation=self.terms.incarnation,
            )
        envelope = self._next_envelope
        envelope.seq = self._sent.seq + 1
        envelope.place.CopyFrom(self.place)
        if control:
            envelope.transcript = self._sent.head
        else:
            envelope.ClearField("transcript")
        return envelope

    def _record(self, direction: MessageDirection, message: Message, size: int) -> None:
        rows = len(message.tensors[0]) if message.tensors else 0
        payload = sum(tensor.nbytes for tensor in message.tensors)
        task = task_name(self.place)
        self.record(
            MessageRecord(self.terms.peer, direction, message.kind, task, rows, payload, size)
        )


def _whole(place: vfl_pb2.Place) -> str:
    """Return the position in words, with the micro-batch if there is one."""
    part = f", micro-batch {place.microbatch}" if place.microbatch else ""
    return describe_place(place) + part
