"""Completeness: no absent field is ever read as zero, and no unknown word of an enum believed."""

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as Proto

from protocol.errors import ProtocolError
from protocol.message import WITH_TENSOR, Body

_MAY_BE_ABSENT = {
    "Ask.epoch",  # with SHUFFLED only
    "Done.report",
    "Embedding.report",
    "Hello.run",
    "Hello.prediction",  # of who comes to train
    "LiteralDual.step_size",  # in the first sub-step of an iteration only
    "Report.diverged",
    "Report.held_square",
    "Report.moved_square",
}


def require_complete(body: Body, tensors: int, fault: type[ProtocolError]) -> None:
    """Refuse a message that leaves out what it must say; ``tensors`` is how many travel with it.

    Raises:
        fault: names the fields, or the number of tensors that is right.
    """
    kind = type(body)
    if found := list(_gaps(body, "")):
        raise fault(f"{kind.__name__} without a legal {', '.join(found)}")
    wanted = int(kind in WITH_TENSOR)
    if tensors != wanted:
        raise fault(f"{kind.__name__} brought {tensors} tensors; it must be {wanted}")


def _gaps(said: Proto, path: str) -> Iterator[str]:
    kind = said.DESCRIPTOR
    # protobuf makes a oneof "_name" of every optional field "name"
    absent = [o.name.removeprefix("_") for o in kind.oneofs if said.WhichOneof(o.name) is None]
    single = (f.name for f in kind.fields if f.containing_oneof is None and not f.is_repeated)
    absent += [name for name in single if not said.HasField(name)]
    yield from (path + name for name in absent if f"{kind.name}.{name}" not in _MAY_BE_ABSENT)
    for field, value in said.ListFields():
        yield from _inside(field, value, f"{path}{field.name}")


def _inside(field: FieldDescriptor, value: object, path: str) -> Iterator[str]:
    if field.enum_type is not None:
        if not value or value not in field.enum_type.values_by_number:
            yield path
    elif isinstance(value, Proto):
        yield from _gaps(value, f"{path}.")
    elif field.message_type is not None:  # the only repeated messages are maps
        for key in sorted(value):  # type: ignore[call-overload]
            yield from _gaps(value[key], f"{path}[{key!r:.40}].")  # type: ignore[index]
