"""A message that was said half-way: nothing may follow its first frames but the end."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from talk import ASK, DESCEND, Pair, TappedLine, blob, floats, pair

from protocol import vfl_pb2 as say
from protocol.channel import Channel
from protocol.errors import Aborted, LineBroken, LocalProtocolError, PeerSilent
from protocol.frames import CHUNK
from protocol.line import memory_lines
from protocol.phases import Phase
from tests.conftest import Lines


class TearingLine(TappedLine):
    """The third frame never leaves: a signal comes, or the peer takes none."""

    reason: BaseException

    def send(self, frame: bytes, timeout: float) -> None:
        if len(self.sent) == 2:
            raise self.reason
        super().send(frame, timeout)


@pytest.mark.parametrize("reason", [KeyboardInterrupt(), PeerSilent("takes no message for 1 s")])
def test_nothing_follows_half_a_message(lines: Lines, reason: BaseException) -> None:
    tearing = TearingLine(lines.hub)
    tearing.reason = reason
    talk = pair(tearing, lines.spoke, Phase.TRANSFERRING)
    hub: Channel = talk.hub.channel
    with pytest.raises(type(reason)):
        hub.send(say.Matrix(), blob(3 * CHUNK))
    with pytest.raises(LocalProtocolError, match="an earlier message is half said"):
        hub.send(say.Matrix(), blob(1))
    hub.abort("local", "interrupted")
    assert len(tearing.sent) == 2
    with pytest.raises(LineBroken, match="closed the connection"):
        talk.spoke.channel.receive(5)


def test_message_that_never_began_is_no_torn_one() -> None:
    hub, _ = memory_lines()
    talk = pair(hub, hub, Phase.TRANSFERRING)
    with pytest.raises(LocalProtocolError, match="cannot travel"):
        talk.hub.channel.send(say.Matrix(), blob(4).astype(bool))
    talk.hub.channel.abort("local", "a mistake of ours")
    assert len(talk.hub.line.sent) == 1


def test_answer_is_kept_only_until_the_peer_goes_on(lines: Lines) -> None:
    """So that no large message stays in memory for the rest of the run."""
    talk = pair(*lines, Phase.TRANSFERRING)
    for _ in talk.hub.channel._reply, talk.spoke.channel._reply:
        assert _ == []
    talk.carry(talk.spoke.channel.side, say.Store(), blob(2 * CHUNK))
    assert sum(map(len, talk.spoke.channel._reply)) > 2 * CHUNK
    talk.hub.channel.send(say.Matches(digest=b"d" * 32), blob(4, 12))
    assert talk.hub.channel._reply == []  # a hub never repeats itself
    talk.spoke.channel.receive(5)
    assert talk.spoke.channel._reply == []


LATER = 1000  # from here on moments are of the answer and the step; a question has fewer


class Stop(Exception):
    """What a signal raises, wherever the program happens to be."""


def after(moments: int) -> Callable[[FrameType, str, object], Any]:
    """A tracer that raises ``Stop`` before the ``moments``-th instruction of the channel's code."""
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


def interrupted(talk: Pair, moments: int) -> bool:
    """Play some lines; whether the hub was stopped at its ``moments``-th instruction."""
    hub, spoke = talk.hub.channel, talk.spoke.channel
    usual = sys.gettrace()
    sys.settrace(after(moments))
    try:
        hub.send(ASK)
        sys.settrace(usual)
        spoke.receive(5)
        spoke.send(say.Embedding(), floats(4, 3))
        sys.settrace(after(moments - LATER) if moments > LATER else None)
        hub.receive(5)
        hub.send(say.Step(gradient=DESCEND, ask=ASK), floats(4, 3))
    except Stop:
        return True
    finally:
        sys.settrace(usual)
    return False


def hear_out(channel: Channel) -> None:
    """Listen until the conversation ends."""
    while True:
        channel.receive(5)


@pytest.mark.parametrize("start", [0, LATER], ids=["question", "answer and step"])
def test_who_is_stopped_at_any_moment_says_goodbye_or_nothing(start: int) -> None:
    """A transcript that was hashed by half made the goodbye a breach of the protocol."""
    told = 0
    for moments in range(start + 1, start + LATER):
        talk = pair(*memory_lines(), Phase.READY)
        if not interrupted(talk, moments):
            break
        talk.hub.channel.abort("absent", "was told to stop")
        with pytest.raises((Aborted, LineBroken)) as ended:
            hear_out(talk.spoke.channel)
        told += ended.type is Aborted
    assert moments > start + 100
    assert told > 50
