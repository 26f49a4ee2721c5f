"""Completeness check of messages: required fields, legal values and the number of tensors.

An absent field is an error and is never treated as zero. The rules of each message type stand in
``vfl.proto``, as the options ``absent_if``, ``bounds`` and ``tensor``. They are read once, so that
the check of a training step takes a few microseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import inf, isfinite
from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message as Proto

from protocol import vfl_pb2
from protocol.errors import ProtocolError
from protocol.message import WITH_TENSOR, Body
from protocol.proto_options import read_option

_NOT_NUMERIC = (FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_MESSAGE)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The legal values of a field."""

    least: float = -inf  # smallest legal number
    most: float = inf  # largest legal number
    above: float | None = None  # a legal number is larger than this; None: no such bound
    finite: bool = False  # whether NaN and infinite numbers are illegal
    size: float = inf  # largest number of characters of a text, or of elements of a list
    sized: bool = False  # whether the field is a text or a list
    numeric: bool = True  # whether the field has numbers

    def allows(self, found: Any) -> bool:
        """Return whether a field's value, which is a number, a text or a list, is legal."""
        if self.sized and len(found) > self.size:
            return False
        numbers = found if self.sized else (found,)
        return not self.numeric or all(self._allows_number(each) for each in numbers)

    def _allows_number(self, found: float) -> bool:
        return (
            self.least <= found <= self.most
            and (self.above is None or found > self.above)
            and (not self.finite or isfinite(found))
        )

    def __str__(self) -> str:
        words = [f"at least {self.least:g}"] if self.least > -inf else []
        words += [f"above {self.above:g}"] if self.above is not None else []
        words += [f"at most {self.most:g}"] if self.most < inf else []
        words += ["finite"] if self.finite else []
        words += [f"at most {self.size:g} elements"] if self.size < inf else []
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules of one message type."""

    fields: tuple[str, ...]  # required fields
    choices: tuple[str, ...]  # oneofs of which one field is required
    enums: tuple[tuple[str, frozenset[int]], ...]  # enum fields, and their legal values
    # Fields with bounds; for each field, whether it is a list, and its bounds.
    bounds: tuple[tuple[str, bool, Bounds], ...]
    parts: tuple[str, ...]  # fields that are messages
    lists: tuple[str, ...]  # fields that are lists of messages
    maps: tuple[str, ...]  # fields that are maps of messages


def require_complete(body: Body, tensors: int, fault: type[ProtocolError]) -> None:
    """Check that a message has legal fields and the right number of tensors.

    Raises:
        fault: a field is absent or has an illegal value, or ``tensors`` is not the number of
            tensors that the message needs. The caller chooses the error class ``fault``.
    """
    require_legal(body, fault)
    wanted = int(type(body) in WITH_TENSOR)
    if tensors != wanted:
        raise fault(f"{type(body).__name__} has {tensors} tensors; expected {wanted}")


def require_legal(message: Proto, fault: type[ProtocolError]) -> None:
    """Check that a message, and each message inside it, has every required field, all legal.

    Raises:
        fault: a field is absent, or has an unknown enum value or a value outside its bounds. The
            error names the message, each such field and what is legal there.
    """
    for _ in _gaps(message, ""):
        found = ", ".join(_gaps(message, ""))
        raise fault(describe_gaps(type(message).__name__, found))


def describe_gaps(message: str, fields: str) -> str:
    """Return the error text about a message in which ``fields`` are absent or illegal."""
    return f"{message} lacks a legal value of {fields}"


def may_be_absent(field: FieldDescriptor) -> bool:
    """Return whether ``vfl.proto`` names a reason for which a field is absent."""
    return read_option(field, vfl_pb2.absent_if) is not None


def _gaps(body: Proto, path: str) -> Iterator[str]:
    """Yield the names of the fields that break a rule, and what is legal there."""
    rules = _rules(body.DESCRIPTOR)
    for name in rules.choices:
        if body.WhichOneof(name) is None:
            yield path + name
    for name in rules.fields:
        if not body.HasField(name):
            yield path + name
    for name, legal in rules.enums:
        if body.HasField(name) and getattr(body, name) not in legal:
            yield f"{path}{name} (legal: {_names(body, name)})"
    if rules.bounds:
        yield from _out_of_bounds(body, rules, path)
    if rules.parts or rules.lists or rules.maps:
        yield from _gaps_inside(body, rules, path)


def _names(body: Proto, field: str) -> str:
    """Return the names of the legal values of an enum field."""
    kind = body.DESCRIPTOR.fields_by_name[field].enum_type
    return ", ".join(each.name for each in kind.values if each.number) if kind else ""


def _out_of_bounds(body: Proto, rules: _Rules, path: str) -> Iterator[str]:
    for name, is_list, bounds in rules.bounds:
        if (is_list or body.HasField(name)) and not bounds.allows(getattr(body, name)):
            yield f"{path}{name} (legal: {bounds})"


def _gaps_inside(body: Proto, rules: _Rules, path: str) -> Iterator[str]:
    for name in rules.parts:
        if body.HasField(name):
            yield from _gaps(getattr(body, name), f"{path}{name}.")
    for name in rules.lists:
        for index, each in enumerate(getattr(body, name)):
            yield from _gaps(each, f"{path}{name}[{index}].")
    for name in rules.maps:
        entries = getattr(body, name)
        for key in sorted(entries):
            yield from _gaps(entries[key], f"{path}{name}[{key!r:.40}].")


@cache
def _rules(kind: Descriptor) -> _Rules:
    fields = [field for field in kind.fields if not field.is_repeated]
    repeated = [field for field in kind.fields if field.is_repeated]
    chosen = [each for each in kind.oneofs if not each.name.startswith("_")]
    in_choice = {field.name for each in chosen for field in each.fields}
    optional = in_choice | {field.name for field in fields if may_be_absent(field)}
    return _Rules(
        fields=tuple(field.name for field in fields if field.name not in optional),
        choices=tuple(each.name for each in chosen),
        enums=tuple(
            (field.name, _legal_numbers(field.enum_type))
            for field in fields
            if field.enum_type is not None
        ),
        bounds=tuple(
            (field.name, field.is_repeated, bounds)
            for field in kind.fields
            if (bounds := field_bounds(field)) is not None
        ),
        parts=tuple(field.name for field in fields if field.message_type is not None),
        lists=tuple(field.name for field in repeated if field.message_type and not _is_map(field)),
        maps=tuple(field.name for field in repeated if _is_map(field) and _maps_messages(field)),
    )


def field_bounds(field: FieldDescriptor) -> Bounds | None:
    """Return the bounds of a field; None if every value is legal."""
    found = read_option(field, vfl_pb2.bounds)
    if found is None:
        return None
    return Bounds(
        least=found.min if found.HasField("min") else -inf,
        most=found.max if found.HasField("max") else inf,
        above=found.above if found.HasField("above") else None,
        finite=found.finite,
        size=found.max_size if found.HasField("max_size") else inf,
        sized=field.is_repeated or field.cpp_type == FieldDescriptor.CPPTYPE_STRING,
        numeric=field.cpp_type not in _NOT_NUMERIC,
    )


def _legal_numbers(kind: EnumDescriptor) -> frozenset[int]:
    """Return an enum's values but 0, which stands for an absent value."""
    return frozenset(kind.values_by_number) - {0}


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _maps_messages(field: FieldDescriptor) -> bool:
    """Return whether the values of a map are messages."""
    entry = field.message_type
    return entry is not None and entry.fields_by_name["value"].message_type is not None
