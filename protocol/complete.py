"""Completeness: no absent field is ever read as zero, and no unknown word of an enum believed.

What a message must say is worked out once for every kind; a step of training is checked in a few
microseconds.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message as Proto

from protocol.errors import ProtocolError
from protocol.message import WITH_TENSOR, Body

_MAY_BE_ABSENT = {
    "Ask.epoch",  # with SHUFFLED only
    "Done.report",
    "Done.spent",
    "Embedding.report",
    "Fresh.shard",  # of a model of one shard
    "Hello.run",
    "Hello.prediction",  # of who comes to train
    "LiteralDual.step_size",  # in the first sub-step of an iteration only
    "Report.cosine",
    "Report.digest",
    "Report.diverged",
    "Report.held_square",
    "Report.inner",
    "Report.moved_square",
    "Report.pulled_square",
    "Report.residual_square",
    "Weigh.anchor",  # where only the held gradient is weighed
    "Report.norm_square",
    "Report.rank",
    "Report.slot_square",
    "Follow.parent",  # of a line that begins fresh
    "Teach.steps",
    "Teach.clip",
    "Teach.distil",  # of this aim only
    "Teach.gate",
    "Teach.noise",
    "Teach.text",
    "Learned.tokens",  # of texts only
    "Measured.chance",
    "Teach.teachers",
    "Spent.square",  # where nothing bounds it
    "There.digest",  # of ciphertexts only
    "Weigh.slot",
}


@dataclass(frozen=True, slots=True)
class _Needs:
    """What messages of one kind must say.

    Attributes:
        fields: that must be there.
        choices: oneofs of which one field must be there.
        words: enum fields, and their legal values.
        parts: fields that are messages.
        maps: fields that are maps of messages.
    """

    fields: tuple[str, ...]
    choices: tuple[str, ...]
    words: tuple[tuple[str, frozenset[int]], ...]
    parts: tuple[str, ...]
    maps: tuple[str, ...]


def require_complete(body: Body, tensors: int, fault: type[ProtocolError]) -> None:
    """Refuse a message that leaves out what it must say; ``tensors`` is how many travel with it.

    Raises:
        fault: names the fields, or the number of tensors that is right.
    """
    kind = type(body)
    for _ in _gaps(body, ""):
        found = ", ".join(_gaps(body, ""))
        raise fault(f"{kind.__name__} without a legal {found}")
    wanted = int(kind in WITH_TENSOR)
    if tensors != wanted:
        raise fault(f"{kind.__name__} brought {tensors} tensors; it must be {wanted}")


def _gaps(said: Proto, path: str) -> Iterator[str]:
    needs = _needs(said.DESCRIPTOR)
    for name in needs.choices:
        if said.WhichOneof(name) is None:
            yield path + name
    for name in needs.fields:
        if not said.HasField(name):
            yield path + name
    for name, legal in needs.words:
        if said.HasField(name) and getattr(said, name) not in legal:
            yield path + name
    if needs.parts or needs.maps:
        yield from _gaps_inside(said, needs, path)


def _gaps_inside(said: Proto, needs: _Needs, path: str) -> Iterator[str]:
    for name in needs.parts:
        if said.HasField(name):
            yield from _gaps(getattr(said, name), f"{path}{name}.")
    for name in needs.maps:
        entries = getattr(said, name)
        for key in sorted(entries):
            yield from _gaps(entries[key], f"{path}{name}[{key!r:.40}].")


@cache
def _needs(kind: Descriptor) -> _Needs:
    fields = [field for field in kind.fields if not field.is_repeated]
    chosen = [each for each in kind.oneofs if not each.name.startswith("_")]
    in_choice = {field.name for each in chosen for field in each.fields}
    exempt = {name.partition(".")[2] for name in _MAY_BE_ABSENT if name.startswith(kind.name + ".")}
    needed = [field.name for field in fields if field.name not in in_choice | exempt]
    return _Needs(
        fields=tuple(needed),
        choices=tuple(each.name for each in chosen),
        words=tuple(
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
    """Whether a field is a map whose values are messages; texts and bytes have nothing to lack."""
    entry = field.message_type
    return entry is not None and entry.fields_by_name["value"].message_type is not None
