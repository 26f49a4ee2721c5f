"""Every field of the envelope, spoilt or absent alone, is refused by its name."""

from collections.abc import Callable

import pytest
from talk import (
    ARRANGEMENTS,
    ASK,
    PLACE,
    Pair,
    envelope,
    example,
    floats,
    frame,
    header,
    pair,
    raw,
)

from protocol import vfl_pb2 as say
from protocol.complete import require_complete
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import FIELDS, Message
from protocol.phases import Phase, Side
from tests.conftest import Lines

SPOILT: dict[str, tuple[Callable[[say.Envelope], object], str]] = {
    "version": (lambda e: setattr(e, "version", 2), "speaks version 2; here it is 1"),
    "session": (lambda e: setattr(e, "session", b"x" * 16), "the session in the envelope"),
    "short session": (lambda e: setattr(e, "session", b""), "the session in the envelope"),
    "agreement": (lambda e: setattr(e, "agreement", b"x" * 32), "the agreement in the envelope"),
    "sender": (lambda e: setattr(e, "sender", "thief"), "sender is 'thief'; it must be 'shop'"),
    "receiver": (lambda e: setattr(e, "receiver", "x"), "receiver is 'x'; it must be 'bank'"),
    "incarnation": (lambda e: setattr(e, "incarnation", 9), "incarnation is 9; it must be 1"),
    "seq": (lambda e: setattr(e, "seq", 3), "sent message 3 after message 1"),
    "transcript": (lambda e: setattr(e, "transcript", b"x" * 32), "the transcript in the envelope"),
    "task": (lambda e: setattr(e.place, "task", say.EVALUATE), "answers for evaluate, epoch 3"),
    "no task": (lambda e: setattr(e.place, "task", 0), "place.task is 0, which is no task"),
    "unknown task": (lambda e: setattr(e.place, "task", 99), "place.task is 99, which is no task"),
    "epoch": (lambda e: setattr(e.place, "epoch", 4), "answers for train, epoch 4"),
    "step": (lambda e: setattr(e.place, "step", 18), "answers for train, epoch 3, step 18"),
    "microbatch": (lambda e: setattr(e.place, "microbatch", 1), "answers for train"),
}
NEEDED = ("version", "agreement", "sender", "receiver", "incarnation", "seq", "transcript", "place")
MAY_BE_ABSENT = {"Ask.epoch", "LiteralDual.step_size", "Embedding.report", "There.digest"} | {
    "Done.report",
    "Done.spent",
    *(f"Report.{name}" for name in ("held_square", "moved_square", "diverged")),
    *(f"Report.{name}" for name in ("inner", "residual_square")),
    *(f"Report.{name}" for name in ("pulled_square", "digest")),
    "Fresh.shard",
    "Weigh.anchor",
    "Hello.prediction",
    "Hello.run",
    "Follow.parent",
    "Teach.clip",
    "Teach.distil",
    "Teach.gate",
    "Teach.noise",
    "Teach.text",
    "Learned.tokens",
    "Measured.chance",
    "Teach.steps",
    "Teach.teachers",
}


def answering(lines: Lines) -> Pair:
    """The spoke is about to say Done, its second message."""
    talk = pair(*lines, Phase.READY)
    talk.carry(Side.HUB, ASK)
    talk.carry(Side.SPOKE, say.Embedding(), floats(4, 3))
    talk.carry(Side.HUB, say.Purge())
    return talk


def refused(talk: Pair, lines: Lines, spoilt: bytes, told: str) -> None:
    before = talk.hub.channel.phase, list(talk.hub.facts)
    lines.spoke.send(spoilt, 5)
    with pytest.raises(RemoteProtocolError, match=told) as error:
        talk.hub.channel.receive(5)
    assert error.value.peer == "shop"
    assert (talk.hub.channel.phase, talk.hub.facts) == before


@pytest.mark.parametrize("name", SPOILT)
def test_spoilt_field_is_refused_by_name(lines: Lines, name: str) -> None:
    talk = answering(lines)
    spoil, told = SPOILT[name]
    spoilt = envelope(talk.spoke.channel)
    spoil(spoilt)
    refused(talk, lines, frame(Message(say.Done()), spoilt), told)


@pytest.mark.parametrize("name", NEEDED)
def test_absent_field_is_refused_by_name(lines: Lines, name: str) -> None:
    talk = answering(lines)
    spoilt = envelope(talk.spoke.channel)
    spoilt.ClearField(name)  # type: ignore[arg-type]
    refused(talk, lines, frame(Message(say.Done()), spoilt), f"an envelope without .*{name}")


@pytest.mark.parametrize("name", [field.name for field in say.Place.DESCRIPTOR.fields])
def test_absent_part_of_the_place_is_refused_by_name(lines: Lines, name: str) -> None:
    talk = answering(lines)
    spoilt = envelope(talk.spoke.channel)
    spoilt.place.ClearField(name)  # type: ignore[arg-type]
    told = f"an envelope without place.{name}"
    refused(talk, lines, frame(Message(say.Done()), spoilt), told)


def test_absent_session_is_refused(lines: Lines) -> None:
    talk = answering(lines)
    spoilt = envelope(talk.spoke.channel)
    spoilt.ClearField("session")
    told = "the session in the envelope is not ours"
    refused(talk, lines, frame(Message(say.Done()), spoilt), told)


@pytest.mark.parametrize(
    "text", ["a\nb", "\x1b[31mred", "../../etc/passwd", "\u202eabc", "x" * 40_000]
)
def test_name_of_a_sender_is_shown_safely(lines: Lines, text: str) -> None:
    talk = answering(lines)
    spoilt = envelope(talk.spoke.channel)
    spoilt.sender = text
    lines.spoke.send(frame(Message(say.Done()), spoilt), 5)
    with pytest.raises(RemoteProtocolError) as error:
        talk.hub.channel.receive(5)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 250


def test_empty_message_is_refused(lines: Lines) -> None:
    talk = answering(lines)
    refused(talk, lines, raw(b""), "a message without envelope or content")


def test_message_without_envelope_is_refused(lines: Lines) -> None:
    talk = answering(lines)
    bare = say.Header(done=say.Done()).SerializeToString()
    refused(talk, lines, raw(bare), "a message without envelope")


def test_message_without_content_is_refused(lines: Lines) -> None:
    talk = answering(lines)
    bare = say.Header(envelope=envelope(talk.spoke.channel)).SerializeToString()
    refused(talk, lines, raw(bare), "or content")


# --- absent fields of the content ---------------------------------------------------------------


def _optional() -> list[tuple[str, str]]:
    kinds = [kind.DESCRIPTOR for kind in FIELDS] + [
        say.Fresh.DESCRIPTOR,
        say.Restore.DESCRIPTOR,
        say.Keep.DESCRIPTOR,
        say.Drop.DESCRIPTOR,
        say.Climb.DESCRIPTOR,
    ]
    return [
        (kind.name, field.name)
        for kind in kinds
        for field in kind.fields
        if field.has_presence and f"{kind.name}.{field.name}" not in MAY_BE_ABSENT
        if kind.name not in ("Arrange", "Gradient")  # one of several: see below
    ]


def _full(kind: str) -> Message:
    for arrange in ARRANGEMENTS:
        if arrange.WhichOneof("action") == kind.lower():
            return Message(arrange)
    return example(getattr(say, kind))


@pytest.mark.parametrize(("kind", "name"), _optional())
def test_absent_field_of_the_content_is_refused_by_name(kind: str, name: str) -> None:
    message = _full(kind)
    body = type(message.body)()
    body.CopyFrom(message.body)
    whole = body if type(body).__name__ == kind else getattr(body, kind.lower())
    whole.ClearField(name)
    for fault in (LocalProtocolError, RemoteProtocolError):
        with pytest.raises(fault, match=rf"without a legal (\w+\.)?{name}\b"):
            require_complete(body, len(message.tensors), fault)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (say.Arrange(), "Arrange without a legal action"),
        (say.Arrange(newton=say.Newton()), "Arrange without a legal newton.order"),
        (say.Arrange(newton=say.Newton(move=say.Move())), "legal newton.move.length"),
        (say.Gradient(), "Gradient without a legal use"),
        (say.Gradient(primal=say.Primal()), "legal primal.dual, primal.step_size"),
        (say.Step(gradient=say.Gradient(), ask=ASK), "Step without a legal gradient.use"),
        (say.Ask(rows=77, order=0, size=4, index=0), "Ask without a legal rows, order"),
        (say.Shares(shares={"x": say.Share(rows=1)}), r"shares\['x'\].key"),
    ],
)
def test_absent_choice_or_unknown_word_is_refused(
    body: say.Arrange | say.Gradient | say.Step | say.Ask | say.Shares, told: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=told):
        require_complete(body, 1, RemoteProtocolError)


def test_what_may_be_absent() -> None:
    for body, tensors in (
        (say.Ask(rows=say.LEARN, order=say.BY_INDEX, size=1, index=0), 0),
        (say.Embedding(), 1),
        (say.Embedding(report=say.Report()), 1),
        (say.Done(), 0),
    ):
        require_complete(body, tensors, RemoteProtocolError)


def test_incomplete_message_is_refused_over_the_line(lines: Lines) -> None:
    talk = pair(*lines, Phase.READY)
    with pytest.raises(LocalProtocolError, match="Ask without a legal rows, order, size, index"):
        talk.hub.channel.send(say.Ask())
    spoilt = header(Message(ASK), envelope(talk.hub.channel))
    spoilt.ask.ClearField("index")
    lines.hub.send(raw(spoilt.SerializeToString()), 5)
    with pytest.raises(RemoteProtocolError, match="bank: Ask without a legal index"):
        talk.spoke.channel.receive(5)
    assert talk.spoke.channel.place == PLACE
