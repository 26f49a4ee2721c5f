"""The dataclasses that cross the wire: each is decoded as it was encoded, or refused."""

from dataclasses import fields, is_dataclass
from math import inf, nan, nextafter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parties.horizontal.engine.wire import SentEvaluation, SentTask
from parties.horizontal.local.local_task import (
    DistillationPlan,
    GatePlan,
    LocalTask,
    LocalUpdate,
    RowMetrics,
    TextTask,
)
from parties.vertical.engine.optimiser import UpdateRule
from parties.vertical.engine.rows import Sample
from protocol import vfl_pb2 as pb
from protocol.completeness import field_bounds, require_complete
from protocol.dataclass_codec import NOT_SENT, decode, encode
from protocol.errors import LocalProtocolError, RemoteProtocolError
from unlearning.horizontal.error_noise import ErrorNoisePlan

SENT: dict[Any, Any] = {
    SentTask: pb.RunTask,
    LocalTask: pb.LocalTask,
    TextTask: pb.TextTask,
    DistillationPlan: pb.DistillationPlan,
    GatePlan: pb.GatePlan,
    ErrorNoisePlan: pb.ErrorNoisePlan,
    SentEvaluation: pb.EvaluateRows,
    LocalUpdate: pb.LocalUpdate,
    RowMetrics: pb.Metrics,
    UpdateRule: pb.UpdateRule,
    Sample: pb.Sample,
}
DELTA = torch.zeros(2)
TASK = LocalTask(stream="a", batch=1, learning_rate=1.0)


def legal_values(kind: Any, message: Any) -> st.SearchStrategy[Any]:
    """Return all values of a dataclass that its message's bounds allow."""
    hints = get_type_hints(kind, include_extras=True)
    drawn = {}
    for each in fields(kind):
        if NOT_SENT in getattr(hints[each.name], "__metadata__", ()):
            drawn[each.name] = st.just(DELTA if each.name == "delta" else None)
        else:
            drawn[each.name] = of_hint(hints[each.name], message.fields_by_name[each.name])
    return st.builds(kind, **drawn)


def of_hint(hint: Any, field: Any) -> st.SearchStrategy[Any]:
    """Return the legal values of one field, whose type in the dataclass is ``hint``."""
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (each for each in arguments if each is not NoneType)
        return st.none() | of_hint(inner, field)
    if get_origin(hint) is Literal:
        return st.sampled_from(arguments)
    if get_origin(hint) is tuple:
        element = of_hint(arguments[0], field)
        if arguments[1:] != (...,):
            return st.tuples(*[element] * len(arguments))
        return st.lists(element, max_size=8).map(tuple)
    if is_dataclass(hint):
        return legal_values(hint, field.message_type)
    if hint is bool:
        return st.booleans()
    if hint is str:
        return st.text(max_size=20)
    return numbers(hint, field)


def numbers(hint: type, field: Any) -> st.SearchStrategy[Any]:
    """Return the legal numbers of a field."""
    found = field_bounds(field)
    least, most, above, finite = -inf, inf, None, False
    if found is not None:
        least, most, above, finite = found.least, found.most, found.above, found.finite
    if hint is int:
        return st.integers(int(max(least, 0)), int(min(most, 2**32 - 1)))
    lowest = least if above is None else nextafter(above, inf)
    return st.floats(
        None if lowest == -inf else lowest,
        None if most == inf else most,
        allow_nan=found is None,
        allow_infinity=None if not finite else False,
    )


def read_back(value: Any) -> Any:
    """Return a value as the other party decodes it."""
    message_type = SENT[type(value)]
    sent = message_type.FromString(encode(value, message_type).SerializeToString())
    own = {"delta": value.delta, "personal": value.personal} if type(value) is LocalUpdate else {}
    return decode(sent, type(value), **own)


@pytest.mark.parametrize("kind", SENT, ids=lambda kind: kind.__name__)
def test_decoded_value_equals_the_encoded_value(kind: Any) -> None:
    @given(legal_values(kind, SENT[kind].DESCRIPTOR))
    def check(value: Any) -> None:
        assert repr(read_back(value)) == repr(value)  # NaN differs from itself

    check()


def test_encoded_bodies_are_complete() -> None:
    bodies = (
        SentTask("retained", ("teacher",), TASK),
        SentEvaluation("test", "sent"),
        LocalUpdate(DELTA, 3, nan, 1),
        RowMetrics(0, 0, 0.0),
    )
    for body in bodies:
        require_complete(encode(body, SENT[type(body)]), 0, LocalProtocolError)


@pytest.mark.parametrize(
    "rows", ["test", "validation", "stamped", "planted", "members", "non_members"]
)
def test_local_task_on_rows_that_are_not_for_training_is_refused(rows: Any) -> None:
    legal = r"RunTask lacks a legal value of rows \(legal: learn, retained, forgotten\)"
    with pytest.raises(LocalProtocolError, match=legal):
        encode(SentTask(rows, (), TASK), pb.RunTask)
    message = encode(SentTask("learn", (), TASK), pb.RunTask)
    message.rows = encode(SentEvaluation(rows, "sent"), pb.EvaluateRows).rows
    with pytest.raises(RemoteProtocolError, match=legal):
        decode(message, SentTask)


@pytest.mark.parametrize("rows", [pb.SAMPLE, pb.SHADOW_HALF, pb.SHADOW_OTHER_HALF])
def test_evaluation_on_rows_of_the_vertical_mode_is_refused(rows: Any) -> None:
    message = encode(SentEvaluation("test", "sent"), pb.EvaluateRows)
    message.rows = rows
    with pytest.raises(RemoteProtocolError, match=r"EvaluateRows lacks a legal value of rows \("):
        decode(message, SentEvaluation)


# The bounds, written down independently of vfl.proto.
POSITIVE, AT_LEAST_0, COUNT = (0.0, -1.0, nan, inf), (-1e-9, nan, inf), (0,)
ILLEGAL: dict[Any, dict[str, tuple[Any, ...]]] = {
    LocalTask(stream="a", batch=1, learning_rate=1.0, steps=3, clip=2.0): {
        **dict.fromkeys(("epochs", "batch", "steps"), COUNT),
        **dict.fromkeys(("learning_rate", "momentum", "weight_decay", "proximal"), AT_LEAST_0),
        "clip": (0.0, -1.0, nan),
        "temperature": POSITIVE,
        "teacher_weights": ((-0.5, 0.5), (0.5, nan), (inf, 0.5), (0.5,), (0.1, 0.2, 0.3)),
        "stream": ("a" * 1025,),
    },
    TextTask(): {
        **dict.fromkeys(("gamma", "alpha", "delta", "steering", "multiplier"), AT_LEAST_0),
        **dict.fromkeys(("beta", "max_loss"), POSITIVE),
    },
    DistillationPlan(): {
        "student_steps": COUNT,
        "temperature": POSITIVE,
        **dict.fromkeys(("divergence", "attention"), AT_LEAST_0),
    },
    GatePlan(): {
        "student_steps": COUNT,
        "temperature": POSITIVE,
        "attention": AT_LEAST_0,
        "threshold": (-1.5, 1.5, nan),
        "classes": ((0,) * 10_001,),
    },
    ErrorNoisePlan(): {
        "rows": (0, 65_537),
        "steps": COUNT,
        "learning_rate": POSITIVE,
        "penalty": AT_LEAST_0,
    },
    SentTask("learn", (), TASK): {"slots": (("model",) * 17,)},
    RowMetrics(1, 1, 0.5, (1,)): {"histogram": ((0,) * 1025,)},
    UpdateRule(): dict.fromkeys(
        ("learning_rate", "momentum", "weight_decay", "proximal"), AT_LEAST_0
    ),
    Sample("draw", 0.5): {"share": (0.0, -0.5, 1.5, nan)},
}


@pytest.mark.parametrize(
    ("value", "name", "wrong"),
    [
        pytest.param(value, name, wrong, id=f"{type(value).__name__}-{name}-{wrong!r:.20}")
        for value, names in ILLEGAL.items()
        for name, all_wrong in names.items()
        for wrong in all_wrong
    ],
)
def test_number_out_of_bounds_is_refused(value: Any, name: str, wrong: Any) -> None:
    message = encode(value, SENT[type(value)])
    if isinstance(wrong, tuple):
        message.ClearField(name)
        getattr(message, name).extend(wrong)
    else:
        setattr(message, name, wrong)
    error_text = rf"^{SENT[type(value)].__name__} lacks a legal value of {name} \(legal: .+\)$"
    with pytest.raises(RemoteProtocolError, match=error_text):
        decode(message, type(value))


@pytest.mark.parametrize("kind", SENT, ids=lambda kind: kind.__name__)
def test_every_word_of_a_literal_has_a_value_of_its_own(kind: Any) -> None:
    """The values are as many as the words, but for the row sets of the vertical mode."""
    for name, hint in get_type_hints(kind).items():
        if get_origin(hint) is Literal:
            enum = SENT[kind].DESCRIPTOR.fields_by_name[name].enum_type
            legal = {each.number for each in enum.values if each.number}
            found = {getattr(with_word(kind, name, word), name) for word in get_args(hint)}
            assert len(found) == len(get_args(hint))
            assert found == legal or (enum.name == "Rows" and found < legal)


def with_word(kind: Any, name: str, word: str) -> Any:
    """Return the message of a dataclass with one word."""
    needed = {
        SentTask: {"rows": "learn", "slots": (), "task": TASK},
        LocalTask: {"stream": "a", "batch": 1, "learning_rate": 1.0},
        SentEvaluation: {"rows": "test", "parameters": "sent"},
    }.get(kind, {})
    return encode(kind(**{**needed, name: word}), SENT[kind])
