"""Envelope: every wrong or absent field is refused, and the error names the field."""

import re
from collections.abc import Callable

import pytest
from message_examples import (
    ASK,
    COMMANDS,
    PLACE,
    Conversation,
    envelope,
    example,
    floats,
    frame,
    header,
    open_conversation,
    raw,
)

from protocol import vfl_pb2 as pb
from protocol.completeness import require_complete
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import BODY_FIELDS, Message
from protocol.phases import Phase, Side
from tests.conftest import Lines

ALTERED: dict[str, tuple[Callable[[pb.Envelope], object], str]] = {
    "version": (lambda e: setattr(e, "version", 4), "envelope.version is 4; expected 3"),
    "session": (lambda e: setattr(e, "session", b"x" * 16), "envelope.session differs"),
    "short session": (lambda e: setattr(e, "session", b""), "envelope.session differs"),
    "agreement": (lambda e: setattr(e, "agreement", b"x" * 32), "envelope.agreement differs"),
    "sender": (
        lambda e: setattr(e, "sender", "thief"),
        "envelope.sender is 'thief'; expected 'shop'",
    ),
    "receiver": (
        lambda e: setattr(e, "receiver", "x"),
        "envelope.receiver is 'x'; expected 'bank'",
    ),
    "incarnation": (
        lambda e: setattr(e, "incarnation", 9),
        "envelope.incarnation is 9; expected 1",
    ),
    "seq": (lambda e: setattr(e, "seq", 3), "envelope.seq is 3; expected 2"),
    "transcript": (lambda e: setattr(e, "transcript", b"x" * 32), "envelope.transcript differs"),
    "task": (
        lambda e: setattr(e.place, "task", pb.EVALUATE),
        "the reply is for evaluate, epoch 3",
    ),
    "no task": (lambda e: setattr(e.place, "task", 0), "place.task is 0, which is not a task"),
    "unknown task": (
        lambda e: setattr(e.place, "task", 99),
        "place.task is 99, which is not a task",
    ),
    "epoch": (lambda e: setattr(e.place, "epoch", 4), "the reply is for train, epoch 4"),
    "step": (lambda e: setattr(e.place, "step", 18), "the reply is for train, epoch 3, step 18"),
    "microbatch": (
        lambda e: setattr(e.place, "microbatch", 1),
        "the reply is for train, .*, micro-batch 1; expected train, epoch 3, step 17 ",
    ),
}
NEEDED = ("version", "agreement", "sender", "receiver", "incarnation", "seq", "transcript", "place")
MAY_BE_ABSENT = {
    "BatchRequest.epoch",
    "Done.report",
    "Done.spent",
    "Embedding.report",
    "BaseVersion.number",
    "BaseVersion.run",
    "Hello.base",
    "Hello.prediction",
    "Hello.kept",
    "Hello.run",
    "Hello.replays",
    "Hello.serves",
    "ForgetRows.corrects",
    "Initialise.from_kept",
    "Initialise.rule",
    "Initialise.sample",
    "Initialise.shard",
    "LiteralDual.step_size",
    "Present.digest",
    "PrimalStep.noise",
    "ReportNorms.anchor",
    "ReportNorms.proximal",
    "RestoreCopy.rule",
    "RestoreCopy.sample",
    "SwitchBranch.parent",
    *(f"BlockReport.{name}" for name in ("held_square", "change_square", "diverged")),
    *(f"BlockReport.{name}" for name in ("inner_product", "residual_square")),
    *(f"BlockReport.{name}" for name in ("proximal_square", "digest", "commitment")),
}


def request_pending(lines: Lines) -> Conversation:
    """Return a conversation in which the spoke's next message is Done, its second one."""
    conversation = open_conversation(*lines, Phase.READY)
    conversation.exchange(Side.HUB, ASK)
    conversation.exchange(Side.SPOKE, pb.Embedding(), floats(4, 3))
    conversation.exchange(Side.HUB, pb.Purge())
    return conversation


def refused(conversation: Conversation, lines: Lines, altered: bytes, error_text: str) -> None:
    before = conversation.hub.channel.phase, list(conversation.hub.records)
    lines.spoke.send(altered, 5)
    with pytest.raises(RemoteProtocolError, match=error_text) as error:
        conversation.hub.channel.receive(5)
    assert error.value.peer == "shop"
    assert (conversation.hub.channel.phase, conversation.hub.records) == before


@pytest.mark.parametrize("name", ALTERED)
def test_wrong_field_is_refused_by_name(lines: Lines, name: str) -> None:
    conversation = request_pending(lines)
    alter, error_text = ALTERED[name]
    altered = envelope(conversation.spoke.channel)
    alter(altered)
    refused(conversation, lines, frame(Message(pb.Done()), altered), error_text)


@pytest.mark.parametrize("name", NEEDED)
def test_absent_field_is_refused_by_name(lines: Lines, name: str) -> None:
    conversation = request_pending(lines)
    altered = envelope(conversation.spoke.channel)
    altered.ClearField(name)  # type: ignore[arg-type]
    refused(conversation, lines, frame(Message(pb.Done()), altered), f"the envelope lacks .*{name}")


@pytest.mark.parametrize("name", [field.name for field in pb.Place.DESCRIPTOR.fields])
def test_absent_part_of_the_place_is_refused_by_name(lines: Lines, name: str) -> None:
    conversation = request_pending(lines)
    altered = envelope(conversation.spoke.channel)
    altered.place.ClearField(name)  # type: ignore[arg-type]
    error_text = f"the envelope lacks place.{name}"
    refused(conversation, lines, frame(Message(pb.Done()), altered), error_text)


def test_absent_session_is_refused(lines: Lines) -> None:
    conversation = request_pending(lines)
    altered = envelope(conversation.spoke.channel)
    altered.ClearField("session")
    error_text = "envelope.session differs from this party's session"
    refused(conversation, lines, frame(Message(pb.Done()), altered), error_text)


@pytest.mark.parametrize(
    "text", ["a\nb", "\x1b[31mred", "../../etc/passwd", "\u202eabc", "x" * 40_000]
)
def test_name_of_a_sender_is_shown_safely(lines: Lines, text: str) -> None:
    conversation = request_pending(lines)
    altered = envelope(conversation.spoke.channel)
    altered.sender = text
    lines.spoke.send(frame(Message(pb.Done()), altered), 5)
    with pytest.raises(RemoteProtocolError) as error:
        conversation.hub.channel.receive(5)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 250


def test_empty_message_is_refused(lines: Lines) -> None:
    conversation = request_pending(lines)
    refused(conversation, lines, raw(b""), "the message lacks its envelope or its body")


def test_message_without_envelope_is_refused(lines: Lines) -> None:
    conversation = request_pending(lines)
    grpc_channel = pb.Header(done=pb.Done()).SerializeToString()
    refused(conversation, lines, raw(grpc_channel), "the message lacks its envelope")


def test_message_without_body_is_refused(lines: Lines) -> None:
    conversation = request_pending(lines)
    grpc_channel = pb.Header(envelope=envelope(conversation.spoke.channel)).SerializeToString()
    refused(conversation, lines, raw(grpc_channel), "or its body")


# --- absent fields of the content ---------------------------------------------------------------


def _optional() -> list[tuple[str, str]]:
    kinds = [kind.DESCRIPTOR for kind in BODY_FIELDS] + [
        pb.Initialise.DESCRIPTOR,
        pb.RestoreCopy.DESCRIPTOR,
        pb.KeepCopy.DESCRIPTOR,
        pb.DropCopy.DESCRIPTOR,
        pb.AscentStep.DESCRIPTOR,
    ]
    return [
        (kind.name, field.name)
        for kind in kinds
        for field in kind.fields
        if field.has_presence and f"{kind.name}.{field.name}" not in MAY_BE_ABSENT
        if kind.name not in ("ModelCommand", "Gradient")  # tested below
    ]


def snake(kind: str) -> str:
    """Return the name of the oneof field for a message of this name."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def _full(kind: str) -> Message:
    for arrange in COMMANDS:
        if arrange.WhichOneof("command") == snake(kind):
            return Message(arrange)
    return example(getattr(pb, kind))


@pytest.mark.parametrize(("kind", "name"), _optional())
def test_absent_field_of_the_content_is_refused_by_name(kind: str, name: str) -> None:
    message = _full(kind)
    body = type(message.body)()
    body.CopyFrom(message.body)
    whole = body if type(body).__name__ == kind else getattr(body, snake(kind))
    whole.ClearField(name)
    for fault in (LocalProtocolError, RemoteProtocolError):
        with pytest.raises(fault, match=rf"lacks a legal value of (\w+\.)?{name}\b"):
            require_complete(body, len(message.tensors), fault)


@pytest.mark.parametrize("command", ["initialise", "restore_copy"])
@pytest.mark.parametrize(
    ("part", "name"),
    [
        (part, field.name)
        for part, kind in (("rule", pb.UpdateRule), ("sample", pb.Sample))
        for field in kind.DESCRIPTOR.fields
    ],
)
def test_absent_field_of_a_part_is_refused_by_name(command: str, part: str, name: str) -> None:
    body = next(
        each
        for each in COMMANDS
        if each.WhichOneof("command") == command and getattr(each, command).HasField(part)
    )
    altered = pb.ModelCommand()
    altered.CopyFrom(body)
    getattr(getattr(altered, command), part).ClearField(name)
    require_complete(body, 0, RemoteProtocolError)
    with pytest.raises(RemoteProtocolError, match=rf"value of {command}\.{part}\.{name}$"):
        require_complete(altered, 0, RemoteProtocolError)


@pytest.mark.parametrize(
    ("body", "error_text"),
    [
        (
            pb.ModelCommand(
                restore_copy=pb.RestoreCopy(
                    slot="x",
                    stream="y",
                    rule=pb.UpdateRule(
                        optimiser=pb.OPTIMISER_UNSPECIFIED,
                        learning_rate=1.0,
                        momentum=0.0,
                        weight_decay=0.0,
                        proximal=0.0,
                    ),
                )
            ),
            r"value of restore_copy.rule.optimiser \(legal: PLAIN, ADAM, SGD\)$",
        ),
        (pb.ModelCommand(), "ModelCommand lacks a legal value of command"),
        (
            pb.ModelCommand(newton=pb.Newton()),
            "ModelCommand lacks a legal value of newton.command",
        ),
        (
            pb.ModelCommand(newton=pb.Newton(apply=pb.Newton.Apply())),
            "value of newton.apply.length",
        ),
        (pb.Gradient(), "Gradient lacks a legal value of use"),
        (pb.Gradient(primal_step=pb.PrimalStep()), "primal_step.dual, primal_step.step_size"),
        (
            pb.Step(gradient=pb.Gradient(), next_batch=ASK),
            "Step lacks a legal value of gradient.use",
        ),
        (
            pb.BatchRequest(rows=77, order=0, size=4, index=0),
            r"value of rows \(legal: TRAIN_ROWS, .*\), order \(legal: BY_INDEX, SHUFFLED\)$",
        ),
        (pb.KeyShares(shares={"x": pb.KeyShare(rows=1)}), r"shares\['x'\].key"),
    ],
)
def test_absent_choice_or_unknown_word_is_refused(
    body: pb.ModelCommand | pb.Gradient | pb.Step | pb.BatchRequest | pb.KeyShares, error_text: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=error_text):
        require_complete(body, 1, RemoteProtocolError)


def test_optional_fields_may_be_absent() -> None:
    for body, tensors in (
        (pb.BatchRequest(rows=pb.TRAIN_ROWS, order=pb.BY_INDEX, size=1, index=0), 0),
        (pb.Embedding(), 1),
        (pb.Embedding(report=pb.BlockReport()), 1),
        (pb.Done(), 0),
    ):
        require_complete(body, tensors, RemoteProtocolError)


def test_incomplete_message_is_refused_over_the_line(lines: Lines) -> None:
    conversation = open_conversation(*lines, Phase.READY)
    with pytest.raises(
        LocalProtocolError, match="BatchRequest lacks a legal value of rows, order, size, index"
    ):
        conversation.hub.channel.send(pb.BatchRequest())
    altered = header(Message(ASK), envelope(conversation.hub.channel))
    altered.batch_request.ClearField("index")
    lines.hub.send(raw(altered.SerializeToString()), 5)
    with pytest.raises(
        RemoteProtocolError, match="bank: BatchRequest lacks a legal value of index"
    ):
        conversation.spoke.channel.receive(5)
    assert conversation.spoke.channel.place == PLACE
