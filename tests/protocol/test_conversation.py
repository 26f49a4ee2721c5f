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
    open_conversation,
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
    conversation = open_conversation(*lines)
    for (_, body, tensors), received_message in conversation.run_script(script):
        assert received_message.body == body
        for sent, received in zip(tensors, received_message.tensors, strict=True):
            assert received.dtype == sent.dtype
            np.testing.assert_array_equal(received, sent)
    assert conversation.hub.channel.phase is conversation.spoke.channel.phase is Phase.CLOSED
    assert conversation.spoke.channel.session == SESSION


def test_scripts_have_every_message() -> None:
    kinds = {type(body) for _, body, _ in SCRIPT + HARDENED + HORIZONTAL}
    assert kinds | {pb.Abort} | set(RESUMED_RUN) == set(BODY_FIELDS)


def test_records_have_the_bytes_of_all_frames(lines: Lines) -> None:
    conversation = open_conversation(*lines)
    assert sum(1 for _ in conversation.run_script(SCRIPT)) == len(SCRIPT)
    for side in (conversation.hub, conversation.spoke):
        for way, frames in (
            (MessageDirection.OUT, side.line.sent),
            (MessageDirection.IN, side.line.received),
        ):
            assert sum(f.size for f in side.records if f.direction is way) == sum(map(len, frames))
    assert conversation.hub.line.sent == conversation.spoke.line.received
    assert conversation.spoke.line.sent == conversation.hub.line.received
    assert max(map(len, conversation.hub.line.sent + conversation.spoke.line.sent)) <= MAX_FRAME


def test_records_have_kind_peer_rows_and_payload(lines: Lines) -> None:
    conversation = open_conversation(*lines)
    assert sum(1 for _ in conversation.run_script(SCRIPT)) == len(SCRIPT)
    for speaker, peer in ((conversation.hub, SPOKE), (conversation.spoke, HUB)):
        facts = [(fact.kind, fact.peer, fact.rows, fact.payload) for fact in speaker.records]
        assert facts == [
            (
                type(body).__name__,
                peer,
                len(tensors[0]) if tensors else 0,
                sum(tensor.nbytes for tensor in tensors),
            )
            for _, body, tensors in SCRIPT
        ]
    ways = Counter(fact.direction for fact in conversation.hub.records)
    assert ways[MessageDirection.OUT] == sum(side is Side.HUB for side, *_ in SCRIPT)


@pytest.mark.parametrize(
    "size",
    [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, MAX_PAYLOAD],
)
def test_tensors_at_chunk_borders(lines: Lines, size: int) -> None:
    conversation = open_conversation(*lines, Phase.TRANSFERRING)
    sent = blob(size)
    received = conversation.exchange(Side.HUB, pb.OprfMatrix(), sent)
    assert received.tensors[0].tobytes() == sent.tobytes()
    assert len(conversation.hub.line.sent) == -(-size // CHUNK)


def test_tensor_of_any_memory_layout_arrives(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.EMBEDDED)
    sent = floats(6, 8)[::2, ::-1].T
    received = conversation.exchange(Side.HUB, DESCEND, sent)
    np.testing.assert_array_equal(received.tensors[0], sent)


def test_reply_has_the_place_of_its_request(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    conversation.spoke.channel.place = pb.Place(task=pb.ALIGN, epoch=0, step=0, microbatch=0)
    conversation.hub.channel.place = PLACE
    conversation.exchange(Side.HUB, ASK)
    assert conversation.spoke.channel.place == PLACE
    conversation.exchange(Side.SPOKE, pb.Embedding(), floats(4, 3))
    assert {fact.task for fact in conversation.hub.records + conversation.spoke.records} == {
        "train"
    }


def test_reply_for_another_place_is_refused(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    conversation.exchange(Side.HUB, ASK)
    conversation.spoke.channel.place = pb.Place(task=pb.TRAIN, epoch=3, step=16, microbatch=0)
    with pytest.raises(
        RemoteProtocolError,
        match=r"^shop: the reply is for train, epoch 3, step 16; expected .*, step 17 \(",
    ):
        conversation.exchange(Side.SPOKE, pb.Embedding(), floats(4, 3))
    assert conversation.hub.channel.phase is Phase.EMBEDDING


class FlippingLine(TappedLine):
    """A line that changes the last byte of every frame with a tensor of 48 bytes."""

    def send(self, frame: bytes, timeout: float) -> None:
        tensor = floats(4, 3).tobytes()
        if frame.endswith(tensor):
            frame = frame[:-1] + bytes([frame[-1] ^ 1])
        super().send(frame, timeout)


def test_tampered_transcript_is_refused(lines: Lines) -> None:
    """The next message without a tensor reveals a changed tensor."""
    conversation = open_conversation(lines.hub, FlippingLine(lines.spoke), Phase.READY)
    conversation.exchange(Side.HUB, ASK)
    conversation.exchange(Side.SPOKE, pb.Embedding(), floats(4, 3))
    conversation.exchange(Side.HUB, pb.Purge())
    with pytest.raises(RemoteProtocolError, match=r"envelope\.transcript differs"):
        conversation.exchange(Side.SPOKE, pb.Done())


def test_message_in_the_wrong_phase_is_refused(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.EMBEDDING)
    conversation.spoke.channel._phases.phase = Phase.COMMANDED
    error_text = (
        r"the peer \(spoke\) must not send Done in phase 'embedding'; legal here: Abort, Embedding"
    )
    with pytest.raises(RemoteProtocolError, match=error_text):
        conversation.exchange(Side.SPOKE, pb.Done())
    assert conversation.hub.records == []


def test_illegal_message_is_not_sent(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    with pytest.raises(LocalProtocolError, match="legal here: Abort"):
        conversation.spoke.channel.send(pb.Embedding(), floats(4, 3))
    assert conversation.spoke.line.sent == []


@pytest.mark.parametrize("side", Side, ids=lambda side: side.value)
def test_abort_has_its_reason_and_is_recorded(lines: Lines, side: Side) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    conversation.of(side).channel.abort("policy", "too few\n\x1b[31mcommon rows")
    with pytest.raises(Aborted, match=r"aborted: too few\?\?\[31mcommon rows \(train") as aborted:
        conversation.of(side.other).channel.receive(5)
    assert aborted.value.code == "policy"
    assert [fact.kind for fact in conversation.of(side.other).records] == ["Abort"]
    assert conversation.hub.channel.phase is conversation.spoke.channel.phase is Phase.CLOSED


def test_abort_with_an_earlier_position_is_received(lines: Lines) -> None:
    """A spoke that fails on a gradient has not received the hub's next position yet."""
    conversation = open_conversation(*lines, Phase.READY)
    conversation.hub.channel.place = pb.Place(task=pb.TRAIN, epoch=3, step=18, microbatch=0)
    conversation.hub.channel.send(ASK)
    conversation.spoke.channel.abort("local", "out of memory")
    with pytest.raises(Aborted, match="out of memory"):
        conversation.hub.channel.receive(5)


def test_silent_peer_is_named_with_its_place(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.EMBEDDING)
    error_text = r"^shop: the peer sent no message for 0.05 s \(train, epoch 3, step 17\)$"
    started = monotonic()
    with pytest.raises(PeerSilent, match=error_text):
        conversation.hub.channel.receive(0.05)
    assert monotonic() - started < 1.05


def test_messages_sent_before_closing_arrive(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    conversation.hub.channel.send(pb.Goodbye())
    conversation.hub.channel.close()
    assert conversation.spoke.channel.receive(5).kind == "Goodbye"
    with pytest.raises(LineBroken, match="bank: closed the connection"):
        conversation.spoke.channel.receive(5)


@pytest.fixture
def lines_with_a_waiting_message(lines: Lines) -> Lines:
    """Return lines whose spoke has sent one message that the hub has not received."""
    open_conversation(*lines, Phase.READY).spoke.channel.abort("local", "gone")
    lines.spoke.close()
    return lines


def test_waiting_messages_are_received_before_the_end(lines_with_a_waiting_message: Lines) -> None:
    conversation = open_conversation(*lines_with_a_waiting_message, Phase.READY)
    with pytest.raises(Aborted, match="gone"):
        conversation.hub.channel.receive(5)
    with pytest.raises(LineBroken):
        conversation.hub.line.receive(5)


def test_line_to_another_party_is_refused(lines: Lines) -> None:
    with pytest.raises(LocalProtocolError, match="the connection leads to shop; expected hospital"):
        Channel(lines.hub, Side.HUB, ChannelTerms(HUB, "hospital", b""), print)


def test_places_in_words() -> None:
    assert describe_place(PLACE) == "train, epoch 3, step 17"
    assert describe_place(pb.Place(task=pb.JOIN)) == "join"
    assert describe_place(pb.Place(task=pb.UNLEARN, epoch=1, step=0)) == "unlearn, epoch 1, step 0"
