"""Codec between dataclasses and protobuf messages, driven by their definitions alone.

A dataclass and its message have fields with equal names. The type of a dataclass's field decides
what the message's field must be:

=====================  ============================================================================
dataclass              message
=====================  ============================================================================
``int``                an integer
``float``              a ``double``
``bool``, ``str``      a ``bool``, a ``string``
``bytes``              ``bytes``
a ``Literal`` of text  an enum; the word ``'bad-teacher'`` is the value ``BAD_TEACHER``, unless the
                       value has another word by the option ``word``
a dataclass            a message
``tuple[T, ...]``      a ``repeated`` field; ``tuple[T, T]`` has exactly two elements
``T | None``           a field with the option ``absent_if``; None is an absent field
=====================  ============================================================================

``Annotated[T, NOT_SENT]`` marks a dataclass's field that its message does not have. Every other
difference between the two definitions is an error (``TypeError``), which the first call raises.
``vfl.proto`` has the bounds of the numbers, which both directions check.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message as Proto

from protocol import vfl_pb2
from protocol.completeness import describe_gaps, may_be_absent, require_legal
from protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from protocol.proto_options import read_option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NOT_SENT: Final = "not sent"
Kind = TypeVar("Kind", bound="DataclassInstance")
Wire = TypeVar("Wire", bound=Proto)
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: int,
    FieldDescriptor.CPPTYPE_INT64: int,
    FieldDescriptor.CPPTYPE_UINT32: int,
    FieldDescriptor.CPPTYPE_UINT64: int,
    FieldDescriptor.CPPTYPE_DOUBLE: float,
    FieldDescriptor.CPPTYPE_BOOL: bool,
}


def encode(value: "DataclassInstance", message_type: type[Wire]) -> Wire:
    """Return the message of type ``message_type`` that contains the fields of a dataclass.

    Raises:
        LocalProtocolError: a field has a value that is illegal in the message.
        TypeError: the dataclass does not fit to the message type.
    """
    message = message_type()
    _fill(message, value, _Place(message_type.__name__, LocalProtocolError))
    require_legal(message, LocalProtocolError)
    return message


def decode(message: Proto, kind: type[Kind], **not_sent: object) -> Kind:
    """Return the dataclass ``kind`` with the fields of a message.

    Args:
        message: the message.
        kind: the dataclass.
        not_sent: the values of the fields that are marked with ``NOT_SENT``.

    Raises:
        RemoteProtocolError: a field is absent, unknown or outside its bounds. The error names the
            message, the field and what is legal there.
        TypeError: the dataclass does not fit to the message.
    """
    require_legal(message, RemoteProtocolError)
    return _read(message, kind, _Place(type(message).__name__, RemoteProtocolError), not_sent)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a codec is in a message, and the class of the errors that it raises."""

    message: str
    fault: type[ProtocolError]
    path: str = ""

    def inside(self, field: str) -> "_Place":
        """Return the place of a field of this place's message."""
        return _Place(self.message, self.fault, f"{self.path}.{field}" if self.path else field)

    def illegal(self, legal: str) -> ProtocolError:
        """Return the error about the value at this place; ``legal`` says what would be legal."""
        return self.fault(describe_gaps(self.message, f"{self.path} (legal: {legal})"))


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field is encoded and decoded."""

    name: str  # name in the dataclass and in the message
    repeated: bool  # whether the field is a tuple
    count: int | None  # number of elements of a tuple; None: any number
    numbers: Mapping[str, int] | None  # for an enum: the number of each word; otherwise None
    kind: "type[DataclassInstance] | None"  # for a message: the dataclass; otherwise None

    def write(self, message: Proto, value: Any, place: _Place) -> None:
        """Set the field of a message to a dataclass's value, which is not None."""
        values = value if self.repeated else (value,)
        self._check_count(len(values), place)
        target = getattr(message, self.name)
        if self.kind is not None:
            for each in values:
                inner = target.add() if self.repeated else target
                inner.SetInParent()
                _fill(inner, each, place)
            return
        wire = [self._to_wire(each, place) for each in values]
        try:
            if self.repeated:
                target.extend(wire)
            else:
                setattr(message, self.name, wire[0])
        except ValueError as error:
            raise place.illegal("a number that the field can hold") from error

    def read(self, message: Proto, place: _Place) -> Any:
        """Return the dataclass's value of the field; None if the field is absent."""
        if not self.repeated and not message.HasField(self.name):
            return None
        found = getattr(message, self.name)
        values = found if self.repeated else (found,)
        self._check_count(len(values), place)
        words = tuple(self._from_wire(each, place) for each in values)
        return words if self.repeated else words[0]

    def _check_count(self, found: int, place: _Place) -> None:
        if self.count is not None and found != self.count:
            raise place.illegal(f"{self.count} elements")

    def _to_wire(self, value: Any, place: _Place) -> Any:
        if self.numbers is None:
            return value
        if value not in self.numbers:
            raise place.illegal(", ".join(self.numbers))
        return self.numbers[value]

    def _from_wire(self, value: Any, place: _Place) -> Any:
        if self.kind is not None:
            return _read(value, self.kind, place, {})
        if self.numbers is None:
            return value
        for word, number in self.numbers.items():
            if number == value:
                return word
        raise place.illegal(", ".join(self.numbers))


def _fill(message: Proto, value: "DataclassInstance", place: _Place) -> None:
    for field in _fields(type(value), message.DESCRIPTOR):
        found = getattr(value, field.name)
        if found is not None:  # a required field that is None is found by ``require_legal``
            field.write(message, found, place.inside(field.name))


def _read(message: Proto, kind: type[Kind], place: _Place, not_sent: Mapping[str, object]) -> Kind:
    found = {
        field.name: field.read(message, place.inside(field.name))
        for field in _fields(kind, message.DESCRIPTOR)
    }
    return kind(**found, **not_sent)


@cache
def _fields(kind: "type[DataclassInstance]", message: Descriptor) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    sent = {
        each.name: hints[each.name]
        for each in fields(kind)
        if NOT_SENT not in getattr(hints[each.name], "__metadata__", ())
    }
    if differing := sorted(sent.keys() ^ message.fields_by_name.keys()):
        raise TypeError(
            f"{kind.__name__} and the message {message.name} differ in the fields {differing}"
        )
    try:
        return tuple(_field(hint, message.fields_by_name[name]) for name, hint in sent.items())
    except TypeError as error:
        raise TypeError(f"{kind.__name__} does not fit to its message: {error}") from error


def _field(hint: Any, field: FieldDescriptor) -> _Field:
    single, optional = _without_none(hint)
    repeated, count = get_origin(single) is tuple, None
    if repeated:
        first, *others = get_args(single)
        count = None if others == [...] else 1 + len(others)
        if others != [...] and any(each != first for each in others):
            raise TypeError(f"{field.name} is a tuple of different types")
        single = first
    chosen = field.containing_oneof is not None and not field.containing_oneof.name.startswith("_")
    if (repeated, optional, chosen) != (field.is_repeated, may_be_absent(field), False):
        raise TypeError(
            f"{field.name} must be a tuple in one exactly if it is repeated in the other, may be "
            "None exactly if it has the option absent_if, and must be in no oneof"
        )
    numbers: dict[str, int] | None = None
    kind: type[DataclassInstance] | None = None
    if field.enum_type is not None:
        numbers = _numbers(single, field.enum_type)
    elif field.message_type is not None and isinstance(single, type) and is_dataclass(single):
        kind = single
        _fields(kind, field.message_type)
    elif single is not _scalar(field):
        raise TypeError(f"{field.name} is {single}, which the field of the message cannot hold")
    return _Field(field.name, repeated, count, numbers, kind)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return a type without None, and whether None was a part of it."""
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    others = [each for each in get_args(hint) if each is not NoneType]
    return (others[0] if len(others) == 1 else hint), len(others) < len(get_args(hint))


def _scalar(field: FieldDescriptor) -> type | None:
    """Return the Python type of a field that is no enum and no message; None: not supported."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return bytes if field.type == FieldDescriptor.TYPE_BYTES else str
    return _TYPES.get(field.cpp_type)


def _numbers(hint: Any, kind: EnumDescriptor) -> dict[str, int]:
    """Return the enum value of each word of a ``Literal``."""
    if get_origin(hint) is not Literal:
        raise TypeError(f"the enum {kind.name} needs a Literal, not {hint}")
    spelled = {}
    for each in kind.values:
        spelled[read_option(each, vfl_pb2.word) or each.name] = each.number
    found = {
        word: spelled.get(word) or spelled.get(word.upper().replace("-", "_"))
        for word in get_args(hint)
    }
    if unknown := [word for word, number in found.items() if not number]:
        raise TypeError(f"the enum {kind.name} has no value for {unknown}")
    return {word: number for word, number in found.items() if number}
