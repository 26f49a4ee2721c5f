"""Repetitions: the same bytes act once and are answered again; other bytes end it."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from talk import ASK, DESCEND, Pair, envelope, floats, frame, pair

from protocol import vfl_pb2 as say
from protocol.errors import Equivocation, PeerSilent, RemoteProtocolError
from protocol.line import memory_lines
from protocol.message import Message
from protocol.phases import Phase, Side
from tests.conftest import Lines

EMBEDDING = (say.Embedding(), floats(4, 3))


def asked(lines: Lines) -> Pair:
    """A question was asked and answered."""
    talk = pair(*lines, Phase.READY)
    talk.carry(Side.HUB, ASK)
    talk.carry(Side.SPOKE, *EMBEDDING)
    return talk


def test_repeated_question_acts_once_and_gets_the_same_answer(lines: Lines) -> None:
    talk = asked(lines)
    (question,), (answer,) = talk.hub.line.sent, talk.spoke.line.sent
    with ThreadPoolExecutor(1) as spoke:
        heard = spoke.submit(talk.spoke.channel.receive, 10)
        for _ in range(100):
            lines.hub.send(question, 5)
            assert lines.hub.receive(5) == answer
        talk.hub.channel.send(DESCEND, floats(4, 3))
        assert heard.result(5).kind == "Gradient"
    assert [fact.kind for fact in talk.spoke.facts] == ["Ask", "Embedding", "Gradient"]


def test_repeated_answers_act_once_and_are_passed_over(lines: Lines) -> None:
    talk = asked(lines)
    for _ in range(10):
        lines.spoke.send(talk.spoke.line.sent[0], 5)
    talk.hub.channel.send(say.Step(gradient=DESCEND, ask=ASK), floats(4, 3))
    talk.spoke.channel.receive(5)
    talk.spoke.channel.send(say.Embedding(), floats(2, 3))
    assert talk.hub.channel.receive(5).tensors[0].shape == (2, 3)
    assert len(talk.hub.facts) == 4


def test_repetitions_do_not_echo_for_ever(lines: Lines) -> None:
    """Were both sides to answer repetitions, one would go to and fro until the end."""
    talk = asked(lines)
    lines.hub.send(talk.hub.line.sent[0], 5)
    for _ in range(20):
        talk.carry(Side.HUB, say.Step(gradient=DESCEND, ask=ASK), floats(4, 3))
        talk.carry(Side.SPOKE, *EMBEDDING)
    assert len(talk.spoke.line.sent) == 22  # one for each question, one for the repetition
    assert len(talk.hub.line.sent) == 21


def test_repeated_message_of_many_frames_is_answered(lines: Lines) -> None:
    talk = pair(*lines, Phase.EMBEDDED)
    talk.carry(Side.HUB, say.Step(gradient=DESCEND, ask=ASK), floats(512, 1025))
    talk.carry(Side.SPOKE, *EMBEDDING)
    with ThreadPoolExecutor(1) as spoke:
        heard = spoke.submit(talk.spoke.channel.receive, 10)
        for part in list(talk.hub.line.sent):
            lines.hub.send(part, 5)
        assert lines.hub.receive(5) == talk.spoke.line.sent[0]
        talk.hub.channel.send(say.Purge())
        assert heard.result(5).kind == "Purge"


def test_peer_that_only_repeats_itself_is_silent() -> None:
    talk = asked(Lines(*memory_lines()))

    class Parrot:
        """Says its last word whenever it is asked."""

        peer = None

        def receive(self, timeout: float) -> bytes:
            return talk.hub.line.sent[-1]

        def send(self, frame: bytes, timeout: float) -> None:
            pass

        def close(self) -> None:
            pass

    talk.spoke.channel.line = Parrot()
    with pytest.raises(PeerSilent, match=r"bank: said nothing new for 0.05 s"):
        talk.spoke.channel.receive(0.05)


@pytest.mark.parametrize("side", Side, ids=lambda side: side.value)
def test_other_bytes_under_one_number_are_equivocation(lines: Lines, side: Side) -> None:
    talk = asked(lines)
    again = envelope(talk.of(side).channel)
    again.seq -= 1
    lines[0 if side is Side.HUB else 1].send(frame(Message(say.Purge()), again), 5)
    with pytest.raises(Equivocation, match="said two things as message 1"):
        talk.of(side.other).channel.receive(5)


@pytest.mark.parametrize("shift", [-1, 1, 7])
def test_gap_in_the_numbers_is_refused(lines: Lines, shift: int) -> None:
    talk = asked(lines)
    talk.carry(Side.HUB, say.Purge())
    spoilt = envelope(talk.hub.channel)
    spoilt.seq += shift - (shift < 0)
    lines.hub.send(frame(Message(say.Purge()), spoilt), 5)
    told = f"bank: sent message {spoilt.seq} after message 2"
    with pytest.raises(RemoteProtocolError, match=told):
        talk.spoke.channel.receive(5)


@pytest.mark.parametrize("seq", [0, 2])
def test_first_number_other_than_one_is_refused(lines: Lines, seq: int) -> None:
    talk = pair(*lines, Phase.READY)
    spoilt = envelope(talk.hub.channel)
    spoilt.seq = seq
    lines.hub.send(frame(Message(say.Purge()), spoilt), 5)
    with pytest.raises(RemoteProtocolError, match=f"sent message {seq} after message 0"):
        talk.spoke.channel.receive(5)


def test_replay_from_an_earlier_session_is_refused(lines: Lines) -> None:
    talk = asked(lines)
    later = pair(*lines, Phase.READY)
    later.spoke.channel.session = later.hub.channel.session = b"another session!"
    lines.hub.send(talk.hub.line.sent[0], 5)
    with pytest.raises(RemoteProtocolError, match="the session in the envelope is not ours"):
        later.spoke.channel.receive(5)
