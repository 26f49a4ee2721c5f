"""Example messages: one of every kind in legal order, channels in any phase, and raw frames."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import pack

import numpy as np

from protocol import vfl_pb2 as pb
from protocol.channel import Channel, MessageRecord
from protocol.envelope import ChannelTerms
from protocol.errors import ProtocolError
from protocol.frames import encode_message
from protocol.line import Line
from protocol.message import Body, Message
from protocol.phases import TRANSITIONS, Phase, Side
from protocol.tensors import Tensor

HUB, SPOKE = "bank", "shop"
SESSION, AGREEMENT = bytes(range(16)), bytes(range(32))
PLACE = pb.Place(task=pb.TRAIN, epoch=3, step=17, microbatch=0)
ScriptLine = tuple[Side, Body, tuple[Tensor, ...]]


def floats(*shape: int) -> Tensor:
    """Return distinct numbers."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 1000


def blob(*shape: int) -> Tensor:
    """Return bytes that repeat after 251 elements."""
    return (np.arange(np.prod(shape)) % 251).astype(np.uint8).reshape(shape)


KEY_SHARE = pb.KeyShare(
    rows=5, key=b"k" * 32, certificate=b"c", signature=b"s", completed_buckets=1
)
ASK = pb.BatchRequest(rows=pb.TRAIN_ROWS, order=pb.SHUFFLED, epoch=1, size=4, index=0)
DESCEND = pb.Gradient(descend=pb.Descend())
NOISE = pb.PrimalNoise(deviation=0.2, draw=7)
LITERAL = pb.LiteralDual(step_size=0.1, threshold=2.0, max=5.0)
WELCOME = pb.Welcome(nonce=b"m" * 32, clock=2.0, software="vfl", certificate=b"c", signature=b"s")
HELLO = pb.Hello(
    oldest_version=3, newest_version=3, nonce=b"n" * 32, agreement="{}", clock=1.0, software="vfl"
)
RULE = pb.UpdateRule(
    optimiser=pb.ADAM, learning_rate=0.05, momentum=0.0, weight_decay=0.0, proximal=0.1
)
SAMPLE = pb.Sample(stream="draw", share=0.25)
VERSION = pb.Version(
    made_by=pb.REQUESTS, made_at="2026-11-27T07:00:00Z", parent=1, requests=["one"], method="npo"
)
COMMANDS = (
    pb.ModelCommand(
        initialise=pb.Initialise(
            stream="first", preprocessing_rows=pb.TRAIN_ROWS, rule=RULE, sample=SAMPLE
        )
    ),
    pb.ModelCommand(initialise=pb.Initialise(stream="first", preprocessing_rows=pb.TRAIN_ROWS)),
    pb.ModelCommand(keep_copy=pb.KeepCopy(slot="original")),
    pb.ModelCommand(
        restore_copy=pb.RestoreCopy(slot="original", stream="second", rule=RULE, sample=SAMPLE)
    ),
    pb.ModelCommand(restore_copy=pb.RestoreCopy(slot="original", stream="second")),
    pb.ModelCommand(drop_copy=pb.DropCopy(slot="original")),
    pb.ModelCommand(report_norms=pb.ReportNorms()),
    pb.ModelCommand(primal_step=pb.PrimalStep(step_size=0.1, literal=LITERAL)),
    pb.ModelCommand(ascent_step=pb.AscentStep(step_size=0.1)),
    pb.ModelCommand(write_checkpoint=pb.WriteCheckpoint(checkpoint=3)),
    pb.ModelCommand(prune_checkpoints=pb.PruneCheckpoints(checkpoint=3)),
    pb.ModelCommand(report_norms=pb.ReportNorms(slot="original")),
    pb.ModelCommand(search_residue=pb.SearchResidue()),
    pb.ModelCommand(test_reconstruction=pb.TestReconstruction(slot="original")),
    pb.ModelCommand(newton=pb.Newton(regularise=pb.Newton.Regularise())),
    pb.ModelCommand(newton=pb.Newton(start=pb.Newton.Start())),
    pb.ModelCommand(newton=pb.Newton(step=pb.Newton.Step(length=0.5))),
    pb.ModelCommand(newton=pb.Newton(direction=pb.Newton.Direction(momentum=0.5))),
    pb.ModelCommand(newton=pb.Newton(apply=pb.Newton.Apply(length=1.0))),
    pb.ModelCommand(newton=pb.Newton(noise=pb.Newton.Noise(sigma=0.1))),
    pb.ModelCommand(report_norms=pb.ReportNorms(slot="original", anchor="start", proximal=0.1)),
    pb.ModelCommand(use_ensemble=pb.UseEnsemble(slots=["original/0", "original/1"])),
    pb.ModelCommand(report_digest=pb.ReportDigest(slot="original/0")),
    pb.ModelCommand(report_commitment=pb.ReportCommitment()),
    pb.ModelCommand(shrink=pb.Shrink(stream="third", bottom=0.3, top=1.0)),
    pb.ModelCommand(report_privacy_spent=pb.ReportPrivacySpent()),
    pb.ModelCommand(
        fit_bottom=pb.FitBottom(
            rows=pb.RETAIN, steps=16, fit=pb.LocalFit(codes=pb.SVD, epochs=20, batch=32)
        )
    ),
)
REPORT = pb.BlockReport(held_square=1.5, change_square=0.5)

# A vertical run. With the two runs below it has every message but Abort, Resume and Resumed.
SCRIPT: list[ScriptLine] = [
    (Side.SPOKE, HELLO, ()),
    (Side.HUB, WELCOME, ()),
    (Side.SPOKE, pb.Accept(certificate=b"c", signature=b"s"), ()),
    (Side.HUB, pb.StartAlignment(rows=7, completed_buckets=3), ()),
    (Side.SPOKE, KEY_SHARE, ()),
    (Side.HUB, pb.KeyShares(shares={SPOKE: KEY_SHARE}, first_bucket=1), ()),
    (Side.SPOKE, pb.OtOffer(offer=b"offer"), ()),
    (Side.HUB, pb.OtAnswer(answer=b"answer"), ()),
    (Side.HUB, pb.OprfMatrix(), (blob(3, 5),)),
    (Side.HUB, pb.OprfMatrix(), (blob(2**20 + 2**19, 1),)),  # one and a half chunks
    (Side.SPOKE, pb.KeyValueStore(), (blob(2**11, 2**10),)),  # two chunks exactly
    (Side.HUB, pb.OprfMatrix(), (blob(3, 5),)),  # for the next bucket
    (
        Side.HUB,
        pb.OprfMatrix(),
        (blob(3, 5),),
    ),  # for one more bucket, before the last bucket's store
    (Side.SPOKE, pb.KeyValueStore(), (blob(7, 8),)),
    (Side.SPOKE, pb.KeyValueStore(), (blob(7, 8),)),
    (Side.HUB, pb.MatchTags(digest=b"d" * 32, counts=[4, 0]), (blob(4, 12),)),
    (Side.HUB, pb.MatchTags(digest=b"d" * 32, counts=[2]), (blob(2, 12),)),
    (Side.SPOKE, pb.Aligned(digest=b"d" * 32), ()),
    (Side.HUB, pb.SplitRows(), (np.array([0, 1, 0, 2], np.uint8),)),
    *(
        line
        for command in COMMANDS
        for line in ((Side.HUB, command, ()), (Side.SPOKE, pb.Done(report=REPORT), ()))
    ),
    (Side.HUB, ASK, ()),
    (Side.SPOKE, pb.Embedding(), (floats(4, 3),)),
    (Side.HUB, pb.Step(gradient=DESCEND, next_batch=ASK), (floats(4, 3),)),
    (Side.SPOKE, pb.Embedding(report=REPORT), (floats(4, 3).astype(np.float64),)),
    (Side.HUB, DESCEND, (floats(4, 3),)),
    (Side.HUB, pb.Evaluate(batch=ASK), ()),
    (Side.SPOKE, pb.Embedding(), (floats(1, 1),)),
    (Side.HUB, ASK, ()),
    (Side.HUB, ASK, ()),  # two requests may be under way
    (Side.SPOKE, pb.Embedding(), (floats(4, 3),)),
    (Side.SPOKE, pb.Embedding(), (floats(4, 3),)),
    (Side.HUB, pb.Gradient(accumulate=pb.Accumulate()), (floats(4, 3),)),
    (
        Side.HUB,
        pb.ModelCommand(keep_copy=pb.KeepCopy(slot="last")),
        (),
    ),  # an embedding may be dropped
    (Side.SPOKE, pb.Done(report=REPORT), ()),
    (Side.HUB, ASK, ()),
    (Side.SPOKE, pb.Embedding(), (floats(512, 513),)),  # a little more than one chunk
    (
        Side.HUB,
        pb.Gradient(primal_step=pb.PrimalStep(step_size=0.1, multiplier=0.5, noise=NOISE)),
        (floats(512, 513),),
    ),
    (Side.HUB, pb.ForgetRows(), (np.array([1, 5, 9]),)),
    (Side.SPOKE, pb.Done(), ()),
    (Side.HUB, pb.PlantTrigger(), (np.array([5, 9]),)),
    (Side.SPOKE, pb.Done(), ()),
    (Side.HUB, pb.Purge(), ()),
    (Side.SPOKE, pb.Done(purged=["optimiser state"]), ()),
    (Side.HUB, pb.Predict(), (np.array([4, 0, 4]),)),
    (Side.SPOKE, pb.Embedding(withheld=[1]), (floats(3, 2),)),
    (Side.HUB, pb.SyncJournal(counts={"shop": 2}), (blob(3),)),
    (Side.SPOKE, pb.JournalEvents(counts={"shop": 3}), (blob(7),)),
    (Side.HUB, pb.Goodbye(), ()),
]

# A vertical run with the hardened intersection.
HARDENED: list[ScriptLine] = [
    *SCRIPT[:5],
    (Side.HUB, pb.BlindedElements(), (blob(4, 32),)),
    (Side.HUB, pb.BlindedElements(), (blob(3, 32),)),
    SCRIPT[5],
    (Side.SPOKE, pb.EvaluatedElements(), (blob(4, 32),)),
    (Side.SPOKE, pb.EvaluatedElements(), (blob(3, 32),)),
    (Side.SPOKE, pb.EvaluationProof(commitment=b"b" * 32, proof=b"p" * 64), ()),
    SCRIPT[10],
    *SCRIPT[13:],  # one store in several messages
]

RUN_TASK = pb.RunTask(
    rows=pb.RETAIN,
    slots=["teacher"],
    task=pb.LocalTask(
        aim=pb.LocalTask.FIT,
        stream="train 3",
        epochs=1,
        batch=32,
        learning_rate=0.05,
        momentum=0.0,
        weight_decay=0.0,
        proximal=0.0,
        teacher_mode=pb.LocalTask.CLEAN_TEACHER,
        teacher_weights=[0.9, 0.1],
        temperature=2.0,
    ),
)

MASK_KEYS = pb.MaskKeys(masking=b"m" * 32, sealing=b"s" * 32, certificate=b"c", signature=b"s")
SEALING_KEY = pb.SealingKey(sealing=b"s" * 32, certificate=b"c", signature=b"s")
SUM_KEY = pb.SumKey(
    size=7, sealed={"a": b"s" * 48}, sealing=b"s" * 32, certificate=b"c", signature=b"s"
)
APPROVE = pb.Approve(certificate=b"c", signature=b"s")

# A horizontal run: vectors in parts, a local task, an evaluation, a request, and both kinds of sum.
HORIZONTAL: list[ScriptLine] = [
    *SCRIPT[:3],
    (Side.HUB, pb.LoadVector(slot="model", start=0, size=9), (floats(4),)),
    (Side.HUB, pb.LoadVector(slot="model", start=4, size=9), (floats(5),)),
    (Side.HUB, RUN_TASK, ()),
    (Side.SPOKE, pb.Update(start=0, size=9), (floats(4),)),
    (Side.SPOKE, pb.Update(start=4, size=9), (floats(5),)),
    (Side.SPOKE, pb.LocalUpdate(rows=7, loss=0.5, steps=1, tokens=0), ()),
    (Side.HUB, pb.EvaluateRows(rows=pb.TEST, parameters=pb.EvaluateRows.PERSONAL), ()),
    (
        Side.SPOKE,
        pb.Metrics(rows=7, correct=5, loss=2.5, histogram=[0, 3, 4], probability=0.0),
        (),
    ),
    (Side.HUB, pb.SelectRequest(request="leaver"), ()),
    (Side.SPOKE, pb.Done(), ()),
    (Side.HUB, pb.SwitchBranch(branch="fedosd", parent="original"), ()),
    (Side.SPOKE, pb.Done(), ()),
    (Side.HUB, pb.KeepVersion(number=2, version=VERSION), ()),
    (Side.SPOKE, pb.Done(), ()),
    (Side.HUB, pb.SyncJournal(counts={"a": 2}), (blob(3),)),
    (Side.SPOKE, pb.JournalEvents(counts={"a": 2}), (blob(4),)),
    (Side.HUB, pb.StartSum(members=["a", SPOKE], threshold=2, context=b"c" * 32), ()),
    (Side.SPOKE, MASK_KEYS, ()),
    (Side.HUB, pb.MemberKeys(keys={SPOKE: MASK_KEYS}), ()),
    (Side.SPOKE, pb.SealedShares(shares={"a": b"s" * 64}), ()),
    (Side.HUB, pb.ShareSeed(shares={"a": b"s" * 64}), ()),
    (Side.HUB, RUN_TASK, ()),
    (Side.SPOKE, pb.Update(start=0, size=9), (np.arange(9),)),
    (Side.SPOKE, pb.LocalUpdate(rows=0, loss=0.0, steps=1, tokens=0), ()),
    (Side.HUB, pb.Present(members=["a", SPOKE]), ()),
    (Side.SPOKE, pb.RevealedShares(seeds={"a": b"h" * 16}, keys={}), ()),
    (Side.HUB, pb.StartSum(members=["a", SPOKE], threshold=2, context=b"c" * 32), ()),
    (Side.SPOKE, SEALING_KEY, ()),
    (Side.HUB, pb.ShareKey(keys={SPOKE: SEALING_KEY}), ()),
    (Side.SPOKE, SUM_KEY, (blob(12),)),
    (Side.HUB, SUM_KEY, (blob(12),)),
    (Side.HUB, RUN_TASK, ()),
    (Side.SPOKE, pb.Update(start=0, size=9), (blob(9),)),
    (Side.SPOKE, pb.LocalUpdate(rows=0, loss=0.0, steps=1, tokens=0), ()),
    (Side.HUB, pb.Present(members=["a", SPOKE], digest=b"d" * 32), ()),
    (Side.SPOKE, APPROVE, ()),
    (Side.HUB, pb.CiphertextSum(start=0, size=9), (blob(9),)),
    (Side.HUB, pb.Approvals(approvals={SPOKE: APPROVE}), ()),
    (Side.SPOKE, pb.DecryptedSum(start=0, size=9), (np.arange(9),)),
    (Side.SPOKE, pb.Done(), ()),
    (Side.HUB, pb.Goodbye(), ()),
]


# Messages of a resumed run, in place of the intersection.
RESUMED_RUN: dict[type[Body], Body] = {
    pb.Resume: pb.Resume(checkpoint=3),
    pb.Resumed: pb.Resumed(digest=b"d" * 32),
}


def example(kind: type[Body]) -> Message:
    """Return a complete message of ``kind``."""
    if kind in RESUMED_RUN:
        return Message(RESUMED_RUN[kind])
    if kind is pb.Abort:
        return Message(pb.Abort(code="local", reason="the disk is full"))
    body, tensors = next((b, t) for _, b, t in SCRIPT + HARDENED + HORIZONTAL if type(b) is kind)
    return Message(body, tensors)


class TappedLine:
    """A line that records every frame."""

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
class Endpoint:
    """A channel, its line, and the records of its messages."""

    line: TappedLine
    channel: Channel
    records: list[MessageRecord] = field(default_factory=list)


def endpoint(line: Line, side: Side, phase: Phase = Phase.JOINING) -> Endpoint:
    """Return one side of a conversation in ``phase``."""
    names = (HUB, SPOKE) if side is Side.HUB else (SPOKE, HUB)
    records: list[MessageRecord] = []
    tapped = TappedLine(line)
    channel = Channel(tapped, side, ChannelTerms(*names, AGREEMENT), records.append)
    if phase is not Phase.JOINING:
        channel._phases.phase = phase
        channel.session = SESSION
        channel.place = PLACE
    return Endpoint(tapped, channel, records)


@dataclass
class Conversation:
    """Both sides of one conversation."""

    hub: Endpoint
    spoke: Endpoint

    def of(self, side: Side) -> Endpoint:
        return self.hub if side is Side.HUB else self.spoke

    def exchange(self, side: Side, body: Body, *tensors: Tensor) -> Message:
        """Send a message from ``side``, and return it as the other side received it."""
        self.of(side).channel.send(body, *tensors, timeout=5)
        return self.of(side.other).channel.receive(5)

    def run_script(self, script: list[ScriptLine]) -> Iterator[tuple[ScriptLine, Message]]:
        """Transfer all messages of a script; yield each line and the received message."""
        for side, body, tensors in script:
            if isinstance(body, pb.Welcome):
                self.hub.channel.session = SESSION
            yield (side, body, tensors), self.exchange(side, body, *tensors)


def open_conversation(hub: Line, spoke: Line, phase: Phase = Phase.JOINING) -> Conversation:
    """Return both sides of a conversation in ``phase``."""
    return Conversation(endpoint(hub, Side.HUB, phase), endpoint(spoke, Side.SPOKE, phase))


def legal_phase(kind: type[Body]) -> tuple[Phase, Side]:
    """Return a phase in which ``kind`` is legal, and its sender."""
    return next((p, s) for p, moves in TRANSITIONS.items() for s, k in moves if k is kind)


def envelope(channel: Channel, *, control: bool = True) -> pb.Envelope:
    """Return the envelope of the next message of ``channel``."""
    return channel._envelope(control=control)


def frame(message: Message, of: pb.Envelope) -> bytes:
    """Return the only frame of a small message."""
    (only,) = encode_message(message, of)
    return only


def raw(header: bytes, payload: bytes = b"") -> bytes:
    """Return a frame with any header bytes."""
    return pack("<I", len(header)) + header + payload


def header(message: Message, of: pb.Envelope) -> pb.Header:
    """Return the header of a message."""
    whole = frame(message, of)
    return pb.Header.FromString(whole[4 : 4 + int.from_bytes(whole[:4], "little")])


def end_of(line: Line) -> ProtocolError:
    """Receive until ``line`` ends, and return its error."""
    try:
        while True:
            line.receive(10)
    except ProtocolError as error:
        return error
