"""Interrupted messages: after a part of a message, the line is closed without another frame."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from message_examples import ASK, DESCEND, Conversation, TappedLine, blob, floats, open_conversation

from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.errors import Aborted, LineBroken, LocalProtocolError, PeerSilent
from protocol.frames import CHUNK
from protocol.line import memory_lines
from protocol.phases import Phase
from tests.conftest import Lines


class TearingLine(TappedLine):
    """A line whose third frame is not sent: a signal or a timeout interrupts it."""

    reason: BaseException

    def send(self, frame: bytes, timeout: float) -> None:
        if len(self.sent) == 2:
            raise self.reason
        super().send(frame, timeout)


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), PeerSilent("accepted no message for 1 s")])
def test_nothing_is_sent_after_a_part_of_a_message(lines: Lines, reason: BaseException) -> None:
    tearing = TearingLine(lines.hub)
    tearing.reason = reason
    conversation = open_conversation(tearing, lines.spoke, Phase.TRANSFERRING)
    hub: Channel = conversation.hub.channel
    with pytest.raises(type(reason)):
        hub.send(pb.OprfMatrix(), blob(3 * CHUNK))
    with pytest.raises(LocalProtocolError, match="an earlier message was sent only in part"):
        hub.send(pb.OprfMatrix(), blob(1))
    hub.abort("local", "interrupted")
    assert len(tearing.sent) == 2
    with pytest.raises(LineBroken, match="closed the connection"):
        conversation.spoke.channel.receive(5)


def test_message_that_is_refused_before_its_first_frame_is_not_interrupted() -> None:
    hub, _ = memory_lines()
    conversation = open_conversation(hub, hub, Phase.TRANSFERRING)
    with pytest.raises(LocalProtocolError, match="a tensor has type bool"):
        conversation.hub.channel.send(pb.OprfMatrix(), blob(4).astype(bool))
    conversation.hub.channel.abort("local", "wrong type")
    assert len(conversation.hub.line.sent) == 1


def test_reply_is_kept_until_the_next_message(lines: Lines) -> None:
    """A large reply must not stay in memory for the rest of the run."""
    conversation = open_conversation(*lines, Phase.TRANSFERRING)
    for _ in conversation.hub.channel._reply, conversation.spoke.channel._reply:
        assert _ == []
    conversation.exchange(conversation.spoke.channel.side, pb.KeyValueStore(), blob(2 * CHUNK))
    assert sum(map(len, conversation.spoke.channel._reply)) > 2 * CHUNK
    conversation.hub.channel.send(pb.MatchTags(digest=b"d" * 32), blob(4, 12))
    assert conversation.hub.channel._reply == []  # a hub never repeats a message
    conversation.spoke.channel.receive(5)
    assert conversation.spoke.channel._reply == []


LATER = 1000  # higher numbers are in the reply and the step; the request has fewer instructions


class Stop(Exception):
    """Raised in place of a signal, at any instruction."""


def after(moments: int) -> Callable[[FrameType, str, object], Any]:
    """Return a tracer that raises ``Stop`` before this instruction of the channel's code."""
    left = moments

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if Path(frame.f_code.co_filename).name not in ("channel.py", "envelope.py"):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise Stop
        return trace

    return trace


def interrupted(conversation: Conversation, moments: int) -> bool:
    """Exchange messages; return whether the hub was stopped at this instruction."""
    hub, spoke = conversation.hub.channel, conversation.spoke.channel
    usual = sys.gettrace()
    sys.settrace(after(moments))
    try:
        hub.send(ASK)
        sys.settrace(usual)
        spoke.receive(5)
        spoke.send(pb.Embedding(), floats(4, 3))
        sys.settrace(after(moments - LATER) if moments > LATER else None)
        hub.receive(5)
        hub.send(pb.Step(gradient=DESCEND, next_batch=ASK), floats(4, 3))
    except Stop:
        return True
    finally:
        sys.settrace(usual)
    return False


def receive_all(channel: Channel) -> None:
    """Receive until the conversation ends."""
    while True:
        channel.receive(5)


@pytest.mark.parametrize("start", [0, LATER], ids=["question", "answer and step"])
def test_party_that_is_stopped_at_any_instruction_sends_abort_or_nothing(start: int) -> None:
    """A transcript that was changed in part would make the last message illegal."""
    aborts = 0
    for moments in range(start + 1, start + LATER):
        conversation = open_conversation(*memory_lines(), Phase.READY)
        if not interrupted(conversation, moments):
            break
        conversation.hub.channel.abort("absent", "was told to stop")
        with pytest.raises((Aborted, LineBroken)) as ended:
            receive_all(conversation.spoke.channel)
        aborts += ended.type is Aborted
    assert moments > start + 100
    assert aborts > 50
