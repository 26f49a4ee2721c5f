"""The codec between dataclasses and messages: every type of field, and definitions that differ."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from protocol import vfl_pb2
from protocol.dataclass_codec import NOT_SENT, decode, encode
from protocol.errors import LocalProtocolError, RemoteProtocolError

FIELD = descriptor_pb2.FieldDescriptorProto


def declare(
    message: Any, name: str, kind: int, *, repeated: bool = False, of: str = "", absent: str = ""
) -> Any:
    """Add a field to a message; ``of`` is the type of an enum or a message."""
    added = message.field.add(name=name, number=len(message.field) + 1, type=kind)
    added.label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
    if of:
        added.type_name = f".codec_test.{of}"
    if absent:
        added.options.Extensions[vfl_pb2.absent_if] = absent
    if not repeated:
        added.proto3_optional = True
        added.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    return added


def declare_messages() -> dict[str, Any]:
    """Return the classes of the messages ``Inner``, ``Outer`` and ``Chosen`` by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="codec_test.proto", package="codec_test", syntax="proto3"
    )
    file.dependency.append("protocol/vfl.proto")
    inner = file.message_type.add(name="Inner")
    declare(inner, "note", FIELD.TYPE_STRING, absent="there is nothing to note")
    outer = file.message_type.add(name="Outer")
    color = outer.enum_type.add(name="Color")
    for number, name in enumerate(("COLOR_UNSPECIFIED", "LIGHT_RED", "DARK_BLUE", "GREEN_PAINT")):
        color.value.add(name=name, number=number)
    color.value[3].options.Extensions[vfl_pb2.word] = "green"
    declare(outer, "count", FIELD.TYPE_UINT32)
    ratio = declare(outer, "ratio", FIELD.TYPE_DOUBLE)
    ratio.options.Extensions[vfl_pb2.bounds].above = 0
    declare(outer, "ready", FIELD.TYPE_BOOL)
    declare(outer, "name", FIELD.TYPE_STRING).options.Extensions[vfl_pb2.bounds].max_size = 4
    declare(outer, "key", FIELD.TYPE_BYTES)
    declare(outer, "color", FIELD.TYPE_ENUM, of="Outer.Color")
    declare(outer, "limit", FIELD.TYPE_INT64, absent="there is no limit")
    declare(outer, "inner", FIELD.TYPE_MESSAGE, of="Inner")
    declare(outer, "extra", FIELD.TYPE_MESSAGE, of="Inner", absent="there is nothing more")
    declare(outer, "pair", FIELD.TYPE_DOUBLE, repeated=True)
    declare(outer, "colors", FIELD.TYPE_ENUM, of="Outer.Color", repeated=True)
    parts = declare(outer, "parts", FIELD.TYPE_MESSAGE, of="Inner", repeated=True)
    parts.options.Extensions[vfl_pb2.bounds].max_size = 2
    small = file.message_type.add(name="Small")
    declare(small, "number", FIELD.TYPE_FLOAT)
    chosen = file.message_type.add(name="Chosen")
    chosen.oneof_decl.add(name="choice")
    chosen.field.add(name="number", number=1, type=FIELD.TYPE_INT64, label=1, oneof_index=0)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindFileByName("codec_test.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(each) for name, each in found.items()}


MESSAGES = declare_messages()
Color = Literal["light-red", "dark_blue", "green"]


@dataclass(frozen=True)
class Inner:
    note: str | None = "something"


@dataclass(frozen=True, kw_only=True)
class Outer:
    count: int = 3
    ratio: float = 0.5
    ready: bool = True
    name: str = "ash"
    key: bytes = b"\0\xff"
    color: Color = "light-red"
    limit: int | None = None
    inner: Inner = Inner()
    extra: Inner | None = None
    pair: tuple[float, float] = (1.0, 2.0)
    colors: tuple[Color, ...] = ()
    parts: tuple[Inner, ...] = ()
    secret: Annotated[list[int], NOT_SENT] = field(default_factory=list)


FULL = Outer(
    count=2**32 - 1,
    color="green",
    limit=-7,
    inner=Inner(None),  # a message without any field
    extra=Inner("more"),
    pair=(0.25, float("inf")),
    colors=("dark_blue", "green"),
    parts=(Inner("a"), Inner(None)),
)


@pytest.mark.parametrize("value", [Outer(), FULL], ids=["defaults", "full"])
def test_decoded_value_equals_the_encoded_value(value: Outer) -> None:
    sent = MESSAGES["Outer"].FromString(encode(value, MESSAGES["Outer"]).SerializeToString())
    assert decode(sent, Outer) == value


def test_absent_field_is_none_and_not_the_default() -> None:
    assert decode(encode(Inner(None), MESSAGES["Inner"]), Inner) == Inner(None)


def test_words_have_the_values_of_their_names() -> None:
    colors = MESSAGES["Outer"].DESCRIPTOR.enum_types_by_name["Color"].values_by_name
    for word, name in (
        ("light-red", "LIGHT_RED"),
        ("dark_blue", "DARK_BLUE"),
        ("green", "GREEN_PAINT"),
    ):
        message: Any = encode(Outer(color=word), MESSAGES["Outer"])  # type: ignore[arg-type]
        assert message.color == colors[name].number


def test_field_that_is_not_sent_stays_here() -> None:
    sent = encode(Outer(secret=[1]), MESSAGES["Outer"])
    assert decode(sent, Outer).secret == []
    assert decode(sent, Outer, secret=[2]).secret == [2]


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("count", -1, "a number that the field can hold"),
        ("count", 2**32, "a number that the field can hold"),
        ("ratio", 0.0, "above 0"),
        ("ratio", float("nan"), "above 0"),
        ("name", "maple", "at most 4 elements"),
        ("color", "blue", "light-red, dark_blue, green"),
        ("pair", (1.0,), "2 elements"),
        ("colors", ("green", "blue"), "light-red, dark_blue, green"),
        ("parts", (Inner(),) * 3, "at most 2 elements"),
    ],
)
def test_illegal_value_is_not_encoded(name: str, value: object, legal: str) -> None:
    with pytest.raises(LocalProtocolError) as error:
        encode(Outer(**{name: value}), MESSAGES["Outer"])  # type: ignore[arg-type]
    assert str(error.value) == f"Outer lacks a legal value of {name} (legal: {legal})"


def test_none_is_not_encoded_as_a_required_field() -> None:
    with pytest.raises(LocalProtocolError, match=r"Outer lacks a legal value of count$"):
        encode(Outer(count=None), MESSAGES["Outer"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "gap"),
    [
        (lambda m: m.ClearField("count"), "count"),
        (lambda m: m.ClearField("inner"), "inner"),
        (lambda m: setattr(m, "ratio", -1), "ratio (legal: above 0)"),
        (lambda m: setattr(m, "name", "maple"), "name (legal: at most 4 elements)"),
        (
            lambda m: setattr(m, "color", 99),
            "color (legal: LIGHT_RED, DARK_BLUE, GREEN_PAINT)",
        ),
        (lambda m: m.pair.append(3), "pair (legal: 2 elements)"),
        (lambda m: m.colors.append(99), "colors (legal: light-red, dark_blue, green)"),
        (lambda m: m.colors.append(0), "colors (legal: light-red, dark_blue, green)"),
    ],
)
def test_illegal_message_is_not_decoded(change: Any, gap: str) -> None:
    message = encode(Outer(), MESSAGES["Outer"])
    change(message)
    with pytest.raises(RemoteProtocolError) as error:
        decode(message, Outer)
    assert str(error.value) == f"Outer lacks a legal value of {gap}"


def test_enum_value_without_a_word_of_the_dataclass_is_not_decoded() -> None:
    """A dataclass may allow fewer words than the enum has values."""

    @dataclass(frozen=True)
    class Few(Outer):
        color: Literal["green"] = "green"  # type: ignore[assignment]

    with pytest.raises(RemoteProtocolError, match=r"value of color \(legal: green\)$"):
        decode(encode(Outer(), MESSAGES["Outer"]), Few)


def changed(**hints: Any) -> type:
    """Return the dataclass Outer with other types of some fields."""
    return dataclass(frozen=True, kw_only=True)(
        type("Changed", (Outer,), {"__annotations__": hints, **dict.fromkeys(hints)})
    )


@pytest.mark.parametrize(
    ("kind", "error_text"),
    [
        (changed(new=int), r"differ in the fields \['new'\]"),
        (changed(count=Annotated[int, NOT_SENT]), r"differ in the fields \['count'\]"),
        (changed(count=float), "count is <class 'float'>, which the field of the message cannot"),
        (changed(key=str), "key is <class 'str'>, which"),
        (changed(name=bytes), "name is <class 'bytes'>, which"),
        (changed(inner=int), "inner is <class 'int'>, which"),
        (changed(color=str), "the enum Color needs a Literal"),
        (changed(color=Literal["red"]), r"the enum Color has no value for \['red'\]"),
        (changed(color=Literal["color-unspecified"]), "the enum Color has no value for"),
        (changed(count=int | None), "count must be a tuple"),
        (changed(limit=int), "limit must be a tuple"),
        (changed(pair=float), "pair must be a tuple"),
        (changed(count=tuple[int, ...]), "count must be a tuple"),
        (changed(pair=tuple[float, int]), "pair is a tuple of different types"),
        (changed(count=int | str), r"count is int \| str"),
        (changed(inner=Outer), "Outer and the message Inner differ"),
    ],
)
def test_definitions_that_differ_are_an_error(kind: type, error_text: str) -> None:
    message = encode(Outer(), MESSAGES["Outer"])
    with pytest.raises(TypeError, match=error_text):
        decode(message, kind)
    with pytest.raises(TypeError, match=error_text):
        encode(kind(), MESSAGES["Outer"])


@pytest.mark.parametrize(("name", "hint"), [("Small", float), ("Chosen", int)])
def test_message_that_no_dataclass_fits_is_an_error(name: str, hint: type) -> None:
    kind = dataclass(frozen=True)(type(name, (), {"__annotations__": {"number": hint}}))
    with pytest.raises(TypeError, match="number"):
        encode(kind(1), MESSAGES[name])
