"""Whole conversations on every transport: each message arrives once and is recorded."""

from collections import Counter
from time import monotonic

import numpy as np
import pytest
from message_examples import (
    ASK,
    DESCEND,
    HARDENED,
    HORIZONTAL,
    HUB,
    PLACE,
    RESUMED_RUN,
    SCRIPT,
    SESSION,
    SPOKE,
    ScriptLine,
    TappedLine,
    blob,
    floats,
    pair,
)

from protocol import vfl_pb2 as pb
from protocol.channel import Channel, MessageDirection
from protocol.envelope import ChannelTerms, describe_place
from protocol.errors import Aborted, LineBroken, LocalProtocolError, PeerSilent, RemoteProtocolError
from protocol.frames import CHUNK, MAX_FRAME
from protocol.message import BODY_FIELDS
from protocol.phases import Phase, Side
from protocol.tensors import MAX_PAYLOAD
from tests.conftest import Lines


@pytest.mark.parametrize(
    "script", [SCRIPT, HARDENED, HORIZONTAL], ids=["semi_honest", "hardened", "horizontal"]
)
def test_whole_conversation(lines: Lines, script: list[ScriptLine]) -> None:
    talk = pair(*lines)
    for (_, body, tensors), heard in talk.play(script):
        assert heard.body == body
        for sent, received in zip(tensors, heard.tensors, strict=True):
            assert received.dtype == sent.dtype
            np.testing.assert_array_equal(received, sent)
    assert talk.hub.channel.phase is talk.spoke.channel.phase is Phase.CLOSED
    assert talk.spoke.channel.session == SESSION


def test_scripts_have_every_message() -> None:
    said = {type(body) for _, body, _ in SCRIPT + HARDENED + HORIZONTAL}
    assert said | {pb.Abort} | set(RESUMED_RUN) == set(BODY_FIELDS)


def test_records_have_the_bytes_of_all_frames(lines: Lines) -> None:
    talk = pair(*lines)
    assert sum(1 for _ in talk.play(SCRIPT)) == len(SCRIPT)
    for side in (talk.hub, talk.spoke):
        for way, frames in (
            (MessageDirection.OUT, side.line.sent),
            (MessageDirection.IN, side.line.received),
        ):
            assert sum(f.size for f in side.records if f.direction is way) == sum(map(len, frames))
    assert talk.hub.line.sent == talk.spoke.line.received
    assert talk.spoke.line.sent == talk.hub.line.received
    assert max(map(len, talk.hub.line.sent + talk.spoke.line.sent)) <= MAX_FRAME


def test_records_have_kind_peer_rows_and_payload(lines: Lines) -> None:
    talk = pair(*lines)
    assert sum(1 for _ in talk.play(SCRIPT)) == len(SCRIPT)
    for speaker, peer in ((talk.hub, SPOKE), (talk.spoke, HUB)):
        told = [(fact.kind, fact.peer, fact.rows, fact.payload) for fact in speaker.records]
        assert told == [
            (
                type(body).__name__,
                peer,
                len(tensors[0]) if tensors else 0,
                sum(tensor.nbytes for tensor in tensors),
            )
            for _, body, tensors in SCRIPT
        ]
    ways = Counter(fact.direction for fact in talk.hub.records)
    assert ways[MessageDirection.OUT] == sum(side is Side.HUB for side, *_ in SCRIPT)


@pytest.mark.parametrize(
    "size",
    [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, MAX_PAYLOAD],
)
def test_tensors_at_chunk_borders(lines: Lines, size: int) -> None:
    talk = pair(*lines, Phase.TRANSFERRING)
    sent = blob(size)
    heard = talk.carry(Side.HUB, pb.OprfMatrix(), sent)
    assert heard.tensors[0].tobytes() == sent.tobytes()
    assert len(talk.hub.line.sent) == -(-size // CHUNK)


def test_tensor_of_any_memory_layout_arrives(lines: Lines) -> None:
    talk = pair(*lines, Phase.EMBEDDED)
    sent = floats(6, 8)[::2, ::-1].T
    heard = talk.carry(Side.HUB, DESCEND, sent)
    np.testing.assert_array_equal(heard.tensors[0], sent)


def test_reply_has_the_place_of_its_request(lines: Lines) -> None:
    talk = pair(*lines, Phase.READY)
    talk.spoke.channel.place = pb.Place(task=pb.ALIGN, epoch=0, step=0, microbatch=0)
    talk.hub.channel.place = PLACE
    talk.carry(Side.HUB, ASK)
    assert talk.spoke.channel.place == PLACE
    talk.carry(Side.SPOKE, pb.Embedding(), floats(4, 3))
    assert {fact.task for fact in talk.hub.records + talk.spoke.records} == {"train"}


def test_reply_for_another_place_is_refused(lines: Lines) -> None:
    talk = pair(*lines, Phase.READY)
    talk.carry(Side.HUB, ASK)
    talk.spoke.channel.place = pb.Place(task=pb.TRAIN, epoch=3, step=16, microbatch=0)
    with pytest.raises(
        RemoteProtocolError,
        match=r"^shop: the reply is for train, epoch 3, step 16; expected .*, step 17 \(",
    ):
        talk.carry(Side.SPOKE, pb.Embedding(), floats(4, 3))
    assert talk.hub.channel.phase is Phase.EMBEDDING


class FlippingLine(TappedLine):
    """A line that changes the last byte of every frame with a tensor of 48 bytes."""

    def send(self, frame: bytes, timeout: float) -> None:
        tensor = floats(4, 3).tobytes()
        if frame.endswith(tensor):
            frame = frame[:-1] + bytes([frame[-1] ^ 1])
        super().send(frame, timeout)


def test_tampered_transcript_is_refused(lines: Lines) -> None:
    """The next message without a tensor reveals a changed tensor."""
    talk = pair(lines.hub, FlippingLine(lines.spoke), Phase.READY)
    talk.carry(Side.HUB, ASK)
    talk.carry(Side.SPOKE, pb.Embedding(), floats(4, 3))
    talk.carry(Side.HUB, pb.Purge())
    with pytest.raises(RemoteProtocolError, match=r"envelope\.transcript differs"):
        talk.carry(Side.SPOKE, pb.Done())


def test_message_in_the_wrong_phase_is_refused(lines: Lines) -> None:
    talk = pair(*lines, Phase.EMBEDDING)
    talk.spoke.channel._phases.phase = Phase.COMMANDED
    told = (
        r"the peer \(spoke\) must not send Done in phase 'embedding'; legal here: Abort, Embedding"
    )
    with pytest.raises(RemoteProtocolError, match=told):
        talk.carry(Side.SPOKE, pb.Done())
    assert talk.hub.records == []


def test_illegal_message_is_not_sent(lines: Lines) -> None:
    talk = pair(*lines, Phase.READY)
    with pytest.raises(LocalProtocolError, match="legal here: Abort"):
        talk.spoke.channel.send(pb.Embedding(), floats(4, 3))
    assert talk.spoke.line.sent == []


@pytest.mark.parametrize("side", Side, ids=lambda side: side.value)
def test_abort_has_its_reason_and_is_recorded(lines: Lines, side: Side) -> None:
    talk = pair(*lines, Phase.READY)
    talk.of(side).channel.abort("policy", "too few\n\x1b[31mcommon rows")
    with pytest.raises(Aborted, match=r"aborted: too few\?\?\[31mcommon rows \(train") as told:
        talk.of(side.other).channel.receive(5)
    assert told.value.code == "policy"
    assert [fact.kind for fact in talk.of(side.other).records] == ["Abort"]
    assert talk.hub.channel.phase is talk.spoke.channel.phase is Phase.CLOSED


def test_abort_with_an_earlier_position_is_received(lines: Lines) -> None:
    """A spoke that fails on a gradient has not received the hub's next position yet."""
    talk = pair(*lines, Phase.READY)
    talk.hub.channel.place = pb.Place(task=pb.TRAIN, epoch=3, step=18, microbatch=0)
    talk.hub.channel.send(ASK)
    talk.spoke.channel.abort("local", "out of memory")
    with pytest.raises(Aborted, match="out of memory"):
        talk.hub.channel.receive(5)


def test_silent_peer_is_named_with_its_place(lines: Lines) -> None:
    talk = pair(*lines, Phase.EMBEDDING)
    told = r"^shop: sent no message for 0.05 s \(train, epoch 3, step 17\)$"
    started = monotonic()
    with pytest.raises(PeerSilent, match=told):
        talk.hub.channel.receive(0.05)
    assert monotonic() - started < 1.05


def test_messages_sent_before_closing_arrive(lines: Lines) -> None:
    talk = pair(*lines, Phase.READY)
    talk.hub.channel.send(pb.Goodbye())
    talk.hub.channel.close()
    assert talk.spoke.channel.receive(5).kind == "Goodbye"
    with pytest.raises(LineBroken, match="bank: closed the connection"):
        talk.spoke.channel.receive(5)


@pytest.fixture
def waiting(lines: Lines) -> Lines:
    """Return lines whose spoke has sent one message that the hub has not received."""
    pair(*lines, Phase.READY).spoke.channel.abort("local", "gone")
    lines.spoke.close()
    return lines


def test_waiting_messages_are_received_before_the_end(waiting: Lines) -> None:
    talk = pair(*waiting, Phase.READY)
    with pytest.raises(Aborted, match="gone"):
        talk.hub.channel.receive(5)
    with pytest.raises(LineBroken):
        talk.hub.line.receive(5)


def test_line_to_another_party_is_refused(lines: Lines) -> None:
    with pytest.raises(
        LocalProtocolError, match="the line is connected to shop; expected hospital"
    ):
        Channel(lines.hub, Side.HUB, ChannelTerms(HUB, "hospital", b""), print)


def test_places_in_words() -> None:
    assert describe_place(PLACE) == "train, epoch 3, step 17"
    assert describe_place(pb.Place(task=pb.JOIN)) == "join"
    assert describe_place(pb.Place(task=pb.UNLEARN, epoch=1, step=0)) == "unlearn, epoch 1, step 0"
