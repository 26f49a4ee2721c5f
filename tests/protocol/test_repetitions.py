"""Repeated messages: equal bytes act once and get the same reply; other bytes are refused."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from message_examples import ASK, DESCEND, Conversation, envelope, floats, frame, open_conversation

from protocol import vfl_pb2 as pb
from protocol.errors import Equivocation, PeerSilent, RemoteProtocolError
from protocol.line import memory_lines
from protocol.message import Message
from protocol.phases import Phase, Side
from tests.conftest import Lines

EMBEDDING = (pb.Embedding(), floats(4, 3))


def after_request(lines: Lines) -> Conversation:
    """Return a conversation after one request and its reply."""
    conversation = open_conversation(*lines, Phase.READY)
    conversation.exchange(Side.HUB, ASK)
    conversation.exchange(Side.SPOKE, *EMBEDDING)
    return conversation


def test_repeated_request_acts_once_and_gets_the_same_reply(lines: Lines) -> None:
    conversation = after_request(lines)
    (question,), (answer,) = conversation.hub.line.sent, conversation.spoke.line.sent
    with ThreadPoolExecutor(1) as spoke:
        received = spoke.submit(conversation.spoke.channel.receive, 10)
        for _ in range(100):
            lines.hub.send(question, 5)
            assert lines.hub.receive(5) == answer
        conversation.hub.channel.send(DESCEND, floats(4, 3))
        assert received.result(5).kind == "Gradient"
    assert [fact.kind for fact in conversation.spoke.records] == [
        "BatchRequest",
        "Embedding",
        "Gradient",
    ]


def test_repeated_replies_act_once(lines: Lines) -> None:
    conversation = after_request(lines)
    for _ in range(10):
        lines.spoke.send(conversation.spoke.line.sent[0], 5)
    conversation.hub.channel.send(pb.Step(gradient=DESCEND, next_batch=ASK), floats(4, 3))
    conversation.spoke.channel.receive(5)
    conversation.spoke.channel.send(pb.Embedding(), floats(2, 3))
    assert conversation.hub.channel.receive(5).tensors[0].shape == (2, 3)
    assert len(conversation.hub.records) == 4


def test_repetitions_end(lines: Lines) -> None:
    """If both sides replied to repetitions, a repetition would never end."""
    conversation = after_request(lines)
    lines.hub.send(conversation.hub.line.sent[0], 5)
    for _ in range(20):
        conversation.exchange(Side.HUB, pb.Step(gradient=DESCEND, next_batch=ASK), floats(4, 3))
        conversation.exchange(Side.SPOKE, *EMBEDDING)
    assert len(conversation.spoke.line.sent) == 22  # one per request, one for the repetition
    assert len(conversation.hub.line.sent) == 21


def test_repeated_message_of_many_frames_gets_the_same_reply(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.EMBEDDED)
    conversation.exchange(Side.HUB, pb.Step(gradient=DESCEND, next_batch=ASK), floats(512, 1025))
    conversation.exchange(Side.SPOKE, *EMBEDDING)
    with ThreadPoolExecutor(1) as spoke:
        received = spoke.submit(conversation.spoke.channel.receive, 10)
        for part in list(conversation.hub.line.sent):
            lines.hub.send(part, 5)
        assert lines.hub.receive(5) == conversation.spoke.line.sent[0]
        conversation.hub.channel.send(pb.Purge())
        assert received.result(5).kind == "Purge"


def test_peer_that_only_repeats_a_message_is_silent() -> None:
    conversation = after_request(Lines(*memory_lines()))

    class RepeatingLine:
        """A line that always receives the last request."""

        peer = None

        def receive(self, timeout: float) -> bytes:
            return conversation.hub.line.sent[-1]

        def send(self, frame: bytes, timeout: float) -> None:
            pass

        def close(self) -> None:
            pass

    conversation.spoke.channel.line = RepeatingLine()
    with pytest.raises(PeerSilent, match=r"bank: the peer sent only repeated messages for 0.05 s"):
        conversation.spoke.channel.receive(0.05)


@pytest.mark.parametrize("side", Side, ids=lambda side: side.value)
def test_other_bytes_under_one_number_are_equivocation(lines: Lines, side: Side) -> None:
    conversation = after_request(lines)
    again = envelope(conversation.of(side).channel)
    again.seq -= 1
    lines[0 if side is Side.HUB else 1].send(frame(Message(pb.Purge()), again), 5)
    with pytest.raises(Equivocation, match="sent two different messages with sequence number 1"):
        conversation.of(side.other).channel.receive(5)


@pytest.mark.parametrize("shift", [-1, 1, 7])
def test_gap_in_the_numbers_is_refused(lines: Lines, shift: int) -> None:
    conversation = after_request(lines)
    conversation.exchange(Side.HUB, pb.Purge())
    altered = envelope(conversation.hub.channel)
    altered.seq += shift - (shift < 0)
    lines.hub.send(frame(Message(pb.Purge()), altered), 5)
    message = f"bank: envelope.seq is {altered.seq}; expected 3"
    with pytest.raises(RemoteProtocolError, match=message):
        conversation.spoke.channel.receive(5)


@pytest.mark.parametrize("seq", [0, 2])
def test_first_number_other_than_one_is_refused(lines: Lines, seq: int) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    altered = envelope(conversation.hub.channel)
    altered.seq = seq
    lines.hub.send(frame(Message(pb.Purge()), altered), 5)
    with pytest.raises(RemoteProtocolError, match=f"envelope.seq is {seq}; expected 1"):
        conversation.spoke.channel.receive(5)


def test_replay_from_an_earlier_session_is_refused(lines: Lines) -> None:
    conversation = after_request(lines)
    later = open_conversation(*lines, Phase.READY)
    later.spoke.channel.session = later.hub.channel.session = b"another session!"
    lines.hub.send(conversation.hub.line.sent[0], 5)
    with pytest.raises(RemoteProtocolError, match=r"envelope\.session differs"):
        later.spoke.channel.receive(5)
