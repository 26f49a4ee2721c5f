"""Something to say: the whole vocabulary in a legal order, channels, and frames made by hand."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import pack

import numpy as np

from protocol import vfl_pb2 as say
from protocol.channel import Channel, Crossing
from protocol.envelope import Terms
from protocol.errors import ProtocolError
from protocol.frames import encode
from protocol.line import Line
from protocol.message import Body, Message
from protocol.phases import TRANSITIONS, Phase, Side
from protocol.tensors import Tensor

HUB, SPOKE = "bank", "shop"
SESSION, AGREEMENT = bytes(range(16)), bytes(range(32))
PLACE = say.Place(task=say.TRAIN, epoch=3, step=17, microbatch=0)
Line_ = tuple[Side, Body, tuple[Tensor, ...]]


def floats(*shape: int) -> Tensor:
    """Numbers that differ from each other."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 1000


def blob(*shape: int) -> Tensor:
    """Bytes that differ from each other."""
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)


SHARE = say.Share(rows=5, key=b"k" * 32, certificate=b"c", signature=b"s", done=1)
ASK = say.Ask(rows=say.LEARN, order=say.SHUFFLED, epoch=1, size=4, index=0)
DESCEND = say.Gradient(descend=say.Descend())
LITERAL = say.LiteralDual(step_size=0.1, threshold=2.0, cap=5.0)
WELCOME = say.Welcome(nonce=b"m" * 32, clock=2.0, software="vfl", certificate=b"c", signature=b"s")
HELLO = say.Hello(
    oldest_version=1, newest_version=1, nonce=b"n" * 32, agreement="{}", clock=1.0, software="vfl"
)
ARRANGEMENTS = (
    say.Arrange(fresh=say.Fresh(stream="first", fit=say.LEARN)),
    say.Arrange(keep=say.Keep(slot="original")),
    say.Arrange(restore=say.Restore(slot="original", stream="second")),
    say.Arrange(drop=say.Drop(slot="original")),
    say.Arrange(weigh=say.Weigh()),
    say.Arrange(primal=say.Primal(step_size=0.1, literal=LITERAL)),
    say.Arrange(climb=say.Climb(step_size=0.1)),
    say.Arrange(save=say.Save(checkpoint=3)),
    say.Arrange(settle=say.Settle(checkpoint=3)),
    say.Arrange(weigh=say.Weigh(slot="original")),
    say.Arrange(search=say.Search()),
    say.Arrange(invert=say.Invert(slot="original")),
    say.Arrange(newton=say.Newton(regularise=say.Regularise())),
    say.Arrange(newton=say.Newton(begin=say.Begin())),
    say.Arrange(newton=say.Newton(advance=say.Advance(length=0.5))),
    say.Arrange(newton=say.Newton(turn=say.Turn(momentum=0.5))),
    say.Arrange(newton=say.Newton(move=say.Move(length=1.0))),
    say.Arrange(newton=say.Newton(blur=say.Blur(sigma=0.1))),
    say.Arrange(weigh=say.Weigh(slot="original", anchor="start")),
    say.Arrange(assemble=say.Assemble(slots=["original/0", "original/1"])),
    say.Arrange(digest=say.Digest(slot="original/0")),
    say.Arrange(shrink=say.Shrink(stream="third", bottom=0.3, top=1.0)),
    say.Arrange(account=say.Account()),
)
REPORT = say.Report(held_square=1.5, moved_square=0.5)

# One vertical run; with the hardened one below it says every message but Abort.
SCRIPT: list[Line_] = [
    (Side.SPOKE, HELLO, ()),
    (Side.HUB, WELCOME, ()),
    (Side.SPOKE, say.Accept(certificate=b"c", signature=b"s"), ()),
    (Side.HUB, say.Open(rows=7, done=3), ()),
    (Side.SPOKE, SHARE, ()),
    (Side.HUB, say.Shares(shares={SPOKE: SHARE}, done=1), ()),
    (Side.SPOKE, say.Offer(offer=b"offer"), ()),
    (Side.HUB, say.Answer(answer=b"answer"), ()),
    (Side.HUB, say.Matrix(), (blob(3, 5),)),
    (Side.HUB, say.Matrix(), (blob(2**20 + 2**19, 1),)),  # one and a half chunks
    (Side.SPOKE, say.Store(), (blob(2**11, 2**10),)),  # two chunks exactly
    (Side.HUB, say.Matrix(), (blob(3, 5),)),  # of the next bucket
    (Side.HUB, say.Matrix(), (blob(3, 5),)),  # of one more, before the store of the last is there
    (Side.SPOKE, say.Store(), (blob(7, 8),)),
    (Side.SPOKE, say.Store(), (blob(7, 8),)),
    (Side.HUB, say.Matches(digest=b"d" * 32, counts=[4, 0]), (blob(4, 12),)),
    (Side.HUB, say.Matches(digest=b"d" * 32, counts=[2]), (blob(2, 12),)),
    (Side.SPOKE, say.Aligned(digest=b"d" * 32), ()),
    *(
        line
        for arrange in ARRANGEMENTS
        for line in ((Side.HUB, arrange, ()), (Side.SPOKE, say.Done(report=REPORT), ()))
    ),
    (Side.HUB, ASK, ()),
    (Side.SPOKE, say.Embedding(), (floats(4, 3),)),
    (Side.HUB, say.Step(gradient=DESCEND, ask=ASK), (floats(4, 3),)),
    (Side.SPOKE, say.Embedding(report=REPORT), (floats(4, 3).astype(np.float64),)),
    (Side.HUB, DESCEND, (floats(4, 3),)),
    (Side.HUB, say.Show(ask=ASK), ()),
    (Side.SPOKE, say.Embedding(), (floats(1, 1),)),
    (Side.HUB, ASK, ()),
    (Side.HUB, ASK, ()),  # two questions may be under way
    (Side.SPOKE, say.Embedding(), (floats(4, 3),)),
    (Side.SPOKE, say.Embedding(), (floats(4, 3),)),
    (Side.HUB, say.Gradient(accumulate=say.Accumulate()), (floats(4, 3),)),
    (Side.HUB, say.Arrange(keep=say.Keep(slot="last")), ()),  # an embedding may be dropped
    (Side.SPOKE, say.Done(report=REPORT), ()),
    (Side.HUB, ASK, ()),
    (Side.SPOKE, say.Embedding(), (floats(512, 513),)),  # a chunk and a bit
    (Side.HUB, say.Gradient(primal=say.Primal(step_size=0.1, price=0.5)), (floats(512, 513),)),
    (Side.HUB, say.Forget(), (np.array([1, 5, 9]),)),
    (Side.SPOKE, say.Done(), ()),
    (Side.HUB, say.Stamp(), (np.array([5, 9]),)),
    (Side.SPOKE, say.Done(), ()),
    (Side.HUB, say.Purge(), ()),
    (Side.SPOKE, say.Done(purged=["optimiser state"]), ()),
    (Side.HUB, say.Look(), (np.array([4, 0, 4]),)),
    (Side.SPOKE, say.Embedding(), (floats(3, 2),)),
    (Side.HUB, say.Goodbye(), ()),
]

# The same run with the hardened intersection.
HARDENED: list[Line_] = [
    *SCRIPT[:5],
    (Side.HUB, say.Blinded(), (blob(4, 32),)),
    (Side.HUB, say.Blinded(), (blob(3, 32),)),
    SCRIPT[5],
    (Side.SPOKE, say.Evaluated(), (blob(4, 32),)),
    (Side.SPOKE, say.Evaluated(), (blob(3, 32),)),
    (Side.SPOKE, say.Proof(commitment=b"b" * 32, proof=b"p" * 64), ()),
    SCRIPT[10],
    *SCRIPT[13:],  # a store in parts
]

TEACH = say.Teach(
    rows=say.RETAIN,
    aim=say.FIT,
    stream="train 3",
    epochs=1,
    batch=32,
    learning_rate=0.05,
    momentum=0.0,
    weight_decay=0.0,
    proximal=0.0,
    slots=["teacher"],
    teachers=say.Teachers(mode=say.CLEAN_TEACHER, first=0.9, second=0.1, temperature=2.0),
)

MASK_KEYS = say.MaskKeys(masking=b"m" * 32, sealing=b"s" * 32, certificate=b"c", signature=b"s")
SEAL_KEY = say.SealKey(sealing=b"s" * 32, certificate=b"c", signature=b"s")
SUM_KEY = say.SumKey(
    size=7, sealed={"a": b"s" * 48}, sealing=b"s" * 32, certificate=b"c", signature=b"s"
)
ASSENT = say.Assent(certificate=b"c", signature=b"s")

# A horizontal run: vectors in parts, a lesson, a look, a request.
HORIZONTAL: list[Line_] = [
    *SCRIPT[:3],
    (Side.HUB, say.Load(slot="model", start=0, size=9), (floats(4),)),
    (Side.HUB, say.Load(slot="model", start=4, size=9), (floats(5),)),
    (Side.HUB, TEACH, ()),
    (Side.SPOKE, say.Change(start=0, size=9), (floats(4),)),
    (Side.SPOKE, say.Change(start=4, size=9), (floats(5),)),
    (Side.SPOKE, say.Learned(rows=7, loss=0.5, steps=1), ()),
    (Side.HUB, say.Read(rows=say.TEST, sent=False), ()),
    (Side.SPOKE, say.Measured(rows=7, right=5, loss=2.5, odds=[0, 3, 4]), ()),
    (Side.HUB, say.Attend(request="leaver"), ()),
    (Side.SPOKE, say.Done(), ()),
    (Side.HUB, say.Follow(line="fedosd", parent="original"), ()),
    (Side.SPOKE, say.Done(), ()),
    (Side.HUB, say.Gather(members=["a", SPOKE], threshold=2, context=b"c" * 32), ()),
    (Side.SPOKE, MASK_KEYS, ()),
    (Side.HUB, say.Pairs(keys={SPOKE: MASK_KEYS}), ()),
    (Side.SPOKE, say.Sealed(shares={"a": b"s" * 64}), ()),
    (Side.HUB, say.Deal(shares={"a": b"s" * 64}), ()),
    (Side.HUB, TEACH, ()),
    (Side.SPOKE, say.Change(start=0, size=9), (np.arange(9),)),
    (Side.SPOKE, say.Learned(rows=0, loss=0.0, steps=1), ()),
    (Side.HUB, say.There(members=["a", SPOKE]), ()),
    (Side.SPOKE, say.Opened(seeds={"a": b"h" * 16}, keys={}), ()),
    (Side.HUB, say.Gather(members=["a", SPOKE], threshold=2, context=b"c" * 32), ()),
    (Side.SPOKE, SEAL_KEY, ()),
    (Side.HUB, say.Entrust(keys={SPOKE: SEAL_KEY}), ()),
    (Side.SPOKE, SUM_KEY, (blob(12),)),
    (Side.HUB, SUM_KEY, (blob(12),)),
    (Side.HUB, TEACH, ()),
    (Side.SPOKE, say.Change(start=0, size=9), (blob(9),)),
    (Side.SPOKE, say.Learned(rows=0, loss=0.0, steps=1), ()),
    (Side.HUB, say.There(members=["a", SPOKE], digest=b"d" * 32), ()),
    (Side.SPOKE, ASSENT, ()),
    (Side.HUB, say.Total(start=0, size=9), (blob(9),)),
    (Side.HUB, say.Assents(assents={SPOKE: ASSENT}), ()),
    (Side.SPOKE, say.Unsealed(start=0, size=9), (np.arange(9),)),
    (Side.SPOKE, say.Done(), ()),
    (Side.HUB, say.Goodbye(), ()),
]


# What goes in the place of the intersection when a run goes on.
OTHERWISE: dict[type[Body], Body] = {
    say.Resume: say.Resume(checkpoint=3),
    say.Resumed: say.Resumed(digest=b"d" * 32),
}


def example(kind: type[Body]) -> Message:
    """A complete message of ``kind``."""
    if kind in OTHERWISE:
        return Message(OTHERWISE[kind])
    if kind is say.Abort:
        return Message(say.Abort(code="local", reason="the disk is full"))
    body, tensors = next((b, t) for _, b, t in SCRIPT + HARDENED + HORIZONTAL if type(b) is kind)
    return Message(body, tensors)


class TappedLine:
    """A line that remembers every frame that went through it."""

    def __init__(self, line: Line) -> None:
        self.line, self.sent, self.received = line, list[bytes](), list[bytes]()

    @property
    def peer(self) -> str | None:
        return self.line.peer

    def send(self, frame: bytes, timeout: float) -> None:
        self.sent.append(bytes(frame))
        self.line.send(frame, timeout)

    def receive(self, timeout: float) -> bytes:
        self.received.append(self.line.receive(timeout))
        return self.received[-1]

    def close(self) -> None:
        self.line.close()


@dataclass
class Speaker:
    """A channel, its tapped line, and the facts that it recorded."""

    line: TappedLine
    channel: Channel
    facts: list[Crossing] = field(default_factory=list)


def speaker(line: Line, side: Side, phase: Phase = Phase.JOINING) -> Speaker:
    """One side of a conversation that stands in ``phase``."""
    names = (HUB, SPOKE) if side is Side.HUB else (SPOKE, HUB)
    facts: list[Crossing] = []
    tapped = TappedLine(line)
    channel = Channel(tapped, side, Terms(*names, AGREEMENT), facts.append)
    if phase is not Phase.JOINING:
        channel._conversation.phase = phase
        channel.session = SESSION
        channel.place = PLACE
    return Speaker(tapped, channel, facts)


@dataclass
class Pair:
    """Both sides of one conversation."""

    hub: Speaker
    spoke: Speaker

    def of(self, side: Side) -> Speaker:
        return self.hub if side is Side.HUB else self.spoke

    def carry(self, side: Side, body: Body, *tensors: Tensor) -> Message:
        """``side`` says it, the other hears it."""
        self.of(side).channel.send(body, *tensors, timeout=5)
        return self.of(side.other).channel.receive(5)

    def play(self, script: list[Line_]) -> Iterator[tuple[Line_, Message]]:
        """The whole script: what was said, and what was heard."""
        for side, body, tensors in script:
            if isinstance(body, say.Welcome):
                self.hub.channel.session = SESSION
            yield (side, body, tensors), self.carry(side, body, *tensors)


def pair(hub: Line, spoke: Line, phase: Phase = Phase.JOINING) -> Pair:
    """Both sides, in ``phase``."""
    return Pair(speaker(hub, Side.HUB, phase), speaker(spoke, Side.SPOKE, phase))


def turn(kind: type[Body]) -> tuple[Phase, Side]:
    """A phase in which ``kind`` may be said, and who may say it."""
    return next((p, s) for p, moves in TRANSITIONS.items() for s, k in moves if k is kind)


def envelope(channel: Channel, *, control: bool = True) -> say.Envelope:
    """The envelope of the next message of ``channel``, to be spoilt."""
    return channel._envelope(control=control)


def frame(message: Message, of: say.Envelope) -> bytes:
    """The only frame of a small message."""
    (only,) = encode(message, of)
    return only


def raw(header: bytes, payload: bytes = b"") -> bytes:
    """A frame around any header bytes."""
    return pack("<I", len(header)) + header + payload


def header(message: Message, of: say.Envelope) -> say.Header:
    """The header of a message, to be spoilt."""
    whole = frame(message, of)
    return say.Header.FromString(whole[4 : 4 + int.from_bytes(whole[:4], "little")])


def end_of(line: Line) -> ProtocolError:
    """What ``line`` says when it ends."""
    try:
        while True:
            line.receive(10)
    except ProtocolError as error:
        return error
