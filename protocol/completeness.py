"""Completeness check of messages: required fields, enum values and the number of tensors.

An absent field is an error and is never treated as zero. The rules of each message type are
computed once, so that the check of a training step takes a few microseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as Proto

from protocol.errors import ProtocolError
from protocol.message import WITH_TENSOR, Body

_MAY_BE_ABSENT = {
    "BatchRequest.epoch",  # present with SHUFFLED only
    "BlockReport.change_square",
    "BlockReport.cosine",
    "BlockReport.digest",
    "BlockReport.distance_square",
    "BlockReport.diverged",
    "BlockReport.held_square",
    "BlockReport.inner_product",
    "BlockReport.norm_square",
    "BlockReport.proximal_square",
    "BlockReport.rank",
    "BlockReport.residual_square",
    "Done.report",
    "Done.spent",
    "Embedding.report",
    "Hello.prediction",  # absent for training
    "Hello.run",  # absent without a checkpoint
    "Initialise.rule",  # absent: Newton steps
    "Initialise.sample",  # absent: no rows
    "Initialise.shard",  # absent for all rows
    "LiteralDual.step_size",  # present in the first primal step of an iteration only
    "LocalTask.clip",  # absent: no bound
    "LocalTask.distil",  # present with its aim only
    "LocalTask.gate",  # present with its aim only
    "LocalTask.noise",  # present with its aim only
    "LocalTask.steps",  # absent: all epochs
    "LocalTask.teachers",  # present with its aim only
    "LocalTask.text",  # present with its aim only
    "LocalUpdate.tokens",  # present with texts only
    "Metrics.probability",  # present with texts only
    "Present.digest",  # present with ciphertexts only
    "PrivacySpent.square",  # absent: no bound
    "ReportNorms.anchor",
    "ReportNorms.proximal",  # present with an anchor only
    "ReportNorms.slot",
    "RestoreCopy.rule",  # absent: no steps follow
    "RestoreCopy.sample",  # absent: no rows
    "SwitchBranch.parent",  # absent: fresh personal parameters
}


@dataclass(frozen=True, slots=True)
class _Rules:
    """Rules of one message type.

    Attributes:
        fields: required fields.
        choices: oneofs of which one field is required.
        enums: enum fields, and their legal values.
        parts: fields that are messages.
        maps: fields that are maps of messages.
    """

    fields: tuple[str, ...]
    choices: tuple[str, ...]
    enums: tuple[tuple[str, frozenset[int]], ...]
    parts: tuple[str, ...]
    maps: tuple[str, ...]


def require_complete(body: Body, tensors: int, fault: type[ProtocolError]) -> None:
    """Check that a message has every required field and the right number of tensors.

    Raises:
        fault: a field is absent or has an unknown enum value, or ``tensors`` is not the number of
            tensors that the message needs. The caller chooses the error class ``fault``.
    """
    kind = type(body)
    for _ in _gaps(body, ""):
        found = ", ".join(_gaps(body, ""))
        raise fault(f"{kind.__name__} lacks a legal value of {found}")
    wanted = int(kind in WITH_TENSOR)
    if tensors != wanted:
        raise fault(f"{kind.__name__} has {tensors} tensors; expected {wanted}")


def _gaps(body: Proto, path: str) -> Iterator[str]:
    """Yield the names of the fields that break a rule."""
    rules = _rules(body.DESCRIPTOR)
    for name in rules.choices:
        if body.WhichOneof(name) is None:
            yield path + name
    for name in rules.fields:
        if not body.HasField(name):
            yield path + name
    for name, legal in rules.enums:
        if body.HasField(name) and getattr(body, name) not in legal:
            yield path + name
    if rules.parts or rules.maps:
        yield from _gaps_inside(body, rules, path)


def _gaps_inside(body: Proto, rules: _Rules, path: str) -> Iterator[str]:
    for name in rules.parts:
        if body.HasField(name):
            yield from _gaps(getattr(body, name), f"{path}{name}.")
    for name in rules.maps:
        entries = getattr(body, name)
        for key in sorted(entries):
            yield from _gaps(entries[key], f"{path}{name}[{key!r:.40}].")


@cache
def _rules(kind: Descriptor) -> _Rules:
    fields = [field for field in kind.fields if not field.is_repeated]
    chosen = [each for each in kind.oneofs if not each.name.startswith("_")]
    in_choice = {field.name for each in chosen for field in each.fields}
    prefix = kind.full_name.removeprefix("vfl.") + "."
    exempt = {name.removeprefix(prefix) for name in _MAY_BE_ABSENT if name.startswith(prefix)}
    needed = [field.name for field in fields if field.name not in in_choice | exempt]
    return _Rules(
        fields=tuple(needed),
        choices=tuple(each.name for each in chosen),
        enums=tuple(
            (field.name, frozenset(field.enum_type.values_by_number) - {0})
            for field in fields
            if field.enum_type is not None
        ),
        parts=tuple(field.name for field in fields if field.message_type is not None),
        maps=tuple(
            field.name for field in kind.fields if field.is_repeated and _maps_messages(field)
        ),
    )


def _maps_messages(field: FieldDescriptor) -> bool:
    """Return whether a field is a map whose values are messages."""
    entry = field.message_type
    return entry is not None and entry.fields_by_name["value"].message_type is not None
