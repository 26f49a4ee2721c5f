"""Bounds and enums of vfl.proto: every illegal value of every field is refused by name."""

from collections.abc import Iterator
from math import inf, nan, nextafter
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from protocol import vfl_pb2 as pb
from protocol.completeness import field_bounds, may_be_absent, require_legal
from protocol.errors import LocalProtocolError, RemoteProtocolError

WHOLE = {FieldDescriptor.TYPE_UINT32: 2**32 - 1, FieldDescriptor.TYPE_UINT64: 2**64 - 1}


def all_messages(descriptors: Any = pb.DESCRIPTOR.message_types_by_name) -> Iterator[Any]:
    """Yield the descriptor of every message of vfl.proto, also of those inside others."""
    for each in descriptors.values():
        if not each.GetOptions().map_entry:
            yield each
            yield from all_messages(each.nested_types_by_name)


def fields(*, enums: bool) -> list[Any]:
    """Return every enum field, or every field with bounds, that the check covers."""
    checked = [m for m in all_messages() if m.name not in ("Header", "Envelope", "Place")]
    return [
        each
        for message in checked
        for each in message.fields
        if (each.enum_type if enums else field_bounds(each)) is not None
        if message.name != "TensorShape"
    ]


def legal(message: Any) -> Any:
    """Return a legal message of a descriptor with all required fields."""
    made = GetMessageClass(message)()
    chosen = {each.fields[0].name for each in message.oneofs if each.name[0] != "_"}
    others = {
        f.name for f in message.fields
        if f.containing_oneof is not None and f.containing_oneof.name[0] != "_"
    } - chosen  # fmt: skip
    for each in message.fields:
        if each.is_repeated or may_be_absent(each) or each.name in others:
            continue
        if each.message_type is not None:
            getattr(made, each.name).CopyFrom(legal(each.message_type))
        else:
            setattr(made, each.name, legal_scalar(each))
    return made


def legal_scalar(each: Any) -> Any:
    if each.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return b"x" if each.type == FieldDescriptor.TYPE_BYTES else "x"
    return True if each.cpp_type == FieldDescriptor.CPPTYPE_BOOL else 1


def with_value(each: Any, value: Any) -> Any:
    """Return a legal message but for one field, which has ``value``."""
    message = legal(each.containing_type)
    if each.is_repeated:
        getattr(message, each.name).extend(value if isinstance(value, list) else [value])
    else:
        setattr(message, each.name, value)
    return message


def edges(each: Any) -> tuple[list[Any], list[Any]]:
    """Return legal and illegal values next to the bounds of a field."""
    option = each.GetOptions().Extensions[pb.bounds]
    good: list[Any] = []
    bad: list[Any] = []
    whole = each.type in WHOLE
    step = (lambda x, to: x + (1 if to > x else -1)) if whole else nextafter
    if option.HasField("min"):
        good.append(option.min)
        bad.append(step(option.min, -inf))
    if option.HasField("max"):
        good.append(option.max)
        bad.append(step(option.max, inf))
    if option.HasField("above"):
        good.append(step(option.above, inf))
        bad += [option.above, -1.0]
    if not whole and (good or option.finite):
        bad += [nan, -inf] + [inf] * (option.finite or option.HasField("max"))
    if whole:
        good, bad = [int(v) for v in good], [int(v) for v in bad]
    if option.HasField("max_size"):
        one = "x" if each.cpp_type == FieldDescriptor.CPPTYPE_STRING else 1
        for many, kept in ((option.max_size, good), (option.max_size + 1, bad)):
            kept.append([one] * many if each.is_repeated else "x" * many)
    return good, bad


BOUNDED = fields(enums=False)


@pytest.mark.parametrize("each", BOUNDED, ids=lambda each: each.full_name)
def test_values_next_to_the_bounds(each: Any) -> None:
    good, bad = edges(each)
    assert bad
    for value in good:
        require_legal(with_value(each, value), RemoteProtocolError)
    for value in bad:
        message = with_value(each, value)
        for fault in (LocalProtocolError, RemoteProtocolError):
            with pytest.raises(fault) as error:
                require_legal(message, fault)
            start = f"{each.containing_type.name} lacks a legal value of {each.name} (legal: "
            assert str(error.value).startswith(start)


@pytest.mark.parametrize("each", fields(enums=True), ids=lambda each: each.full_name)
def test_unknown_enum_value_is_refused_with_the_legal_ones(each: Any) -> None:
    names = ", ".join(value.name for value in each.enum_type.values if value.number)
    for wrong in (0, 99, -1):
        with pytest.raises(RemoteProtocolError) as error:
            require_legal(with_value(each, wrong), RemoteProtocolError)
        assert str(error.value) == (
            f"{each.containing_type.name} lacks a legal value of {each.name} (legal: {names})"
        )


def test_illegal_value_deep_inside_is_named_by_its_path() -> None:
    message = legal(pb.RunTask.DESCRIPTOR)
    message.task.text.CopyFrom(legal(pb.TextTask.DESCRIPTOR))
    require_legal(message, RemoteProtocolError)
    message.task.text.beta = 0.0
    message.task.text.retain = 7
    message.task.teacher_weights.append(nan)
    with pytest.raises(RemoteProtocolError) as error:
        require_legal(message, RemoteProtocolError)
    assert str(error.value) == (
        "RunTask lacks a legal value of task.teacher_weights (legal: at least 0, finite), "
        "task.text.retain (legal: NLL, KL), task.text.beta (legal: above 0, finite)"
    )


def test_absent_field_with_bounds_may_be_absent() -> None:
    """A bound holds for a field that is there."""
    task = legal(pb.LocalTask.DESCRIPTOR)
    assert not task.HasField("steps")
    require_legal(task, RemoteProtocolError)


def test_every_reason_of_absence_is_a_text() -> None:
    for message in all_messages():
        for each in message.fields:
            if may_be_absent(each):
                assert len(each.GetOptions().Extensions[pb.absent_if].split()) > 2
                assert not each.is_repeated


def test_every_message_with_a_tensor_is_a_body() -> None:
    bodies = {each.message_type.name for each in pb.Header.DESCRIPTOR.oneofs_by_name["body"].fields}
    with_tensor = {m.name for m in all_messages() if m.GetOptions().Extensions[pb.tensor]}
    assert with_tensor <= bodies
    assert with_tensor == {
        "OprfMatrix", "KeyValueStore", "MatchTags", "SplitRows", "BlindedElements",
        "EvaluatedElements",
        "Embedding", "Step", "Gradient", "ForgetRows", "PlantTrigger", "Predict", "LoadVector",
        "SyncJournal", "JournalEvents",
        "Update", "SumKey", "CiphertextSum", "DecryptedSum",
    }  # fmt: skip
