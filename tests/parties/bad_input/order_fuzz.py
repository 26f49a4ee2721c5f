"""Random orders: legal orders with random fields, for a spoke that must refuse or obey them."""

import random
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message as Proto

from parties.common.errors import PolicyError
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.completeness import require_complete
from protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from protocol.message import BODY_FIELDS, WITH_TENSOR, Body, Message
from protocol.tensors import Tensor, check_range

NUMBERS = (0.0, 1.0, -1.0, 0.01, 0.1, 0.3, 0.5, 2.0, 1e-320, 1e9, 1e308, -1e308, nan, inf, -inf)
WHOLE = (0, 1, 2, 3, 7, 16, 20, 64, 210, 4096, 2**31, 2**32 - 1)
HUGE = (2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1)
ROWS = (0, 1, 2, 5, 100, 209, 210, -1, 2**31, 2**63 - 1, -(2**63), -(2**62), 2**62)

Shape = tuple[int, ...]


class Sink:
    """A line that takes every frame and delivers none."""

    peer = None
    since = 0.0

    def send(self, frame: bytes, timeout: float) -> None:
        """Take a frame."""

    def receive(self, timeout: float) -> bytes:
        """Raise an error, because no frame arrives."""
        raise AssertionError

    def close(self) -> None:
        """Do nothing."""

    cut = close


def mutate(message: Proto, draw: random.Random, words: Sequence[str]) -> None:
    """Change one field of a message, or of a message inside it."""
    if not message.DESCRIPTOR.fields:
        return
    each = draw.choice(message.DESCRIPTOR.fields)
    if each.is_repeated:
        found = getattr(message, each.name)
        if each.message_type is not None:
            return
        del found[:]
        found.extend(_value(each, draw, words) for _ in range(draw.choice((0, 1, 2, 20))))
    elif draw.random() < 0.1:
        message.ClearField(each.name)
    elif each.message_type is not None:
        inner = getattr(message, each.name)
        inner.SetInParent()
        fill(inner, draw, words)
        mutate(inner, draw, words)
    else:
        setattr(message, each.name, _value(each, draw, words))


def fill(message: Proto, draw: random.Random, words: Sequence[str]) -> None:
    """Give every absent single field a value; one field of each choice."""
    chosen = {
        draw.choice(each.fields).name
        for each in message.DESCRIPTOR.oneofs
        if not each.name.startswith("_") and message.WhichOneof(each.name) is None
    }
    for each in message.DESCRIPTOR.fields:
        choice = each.containing_oneof and not each.containing_oneof.name.startswith("_")
        if each.is_repeated or message.HasField(each.name) or (choice and each.name not in chosen):
            continue
        if each.message_type is not None:
            inner = getattr(message, each.name)
            inner.SetInParent()
            fill(inner, draw, words)
        else:
            setattr(message, each.name, _value(each, draw, words))


def _value(each: FieldDescriptor, draw: random.Random, words: Sequence[str]) -> Any:
    if each.enum_type is not None:
        return draw.choice([*each.enum_type.values_by_number, 99])
    if each.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        text = draw.choice([*words, "", "x" * 1025, "../../etc", "\n\x1b[31m"])
        return text.encode() if each.type == FieldDescriptor.TYPE_BYTES else text
    if each.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return draw.random() < 0.5
    if each.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return draw.choice(NUMBERS)
    wide = each.cpp_type == FieldDescriptor.CPPTYPE_UINT64
    return draw.choice(WHOLE + HUGE if wide else WHOLE)


def random_tensor(kind: type[Body], draw: random.Random, shapes: Sequence[Shape]) -> Tensor:
    """A tensor for a kind of message: rows in any order, or numbers of some shape."""
    if kind in (pb.ForgetRows, pb.PlantTrigger, pb.Predict):
        rows = [draw.choice(ROWS) for _ in range(draw.choice((1, 2, 3, 30)))]
        return np.array(sorted(rows) if draw.random() < 0.6 else rows, np.int64)
    shape = draw.choice(shapes)
    dtype = draw.choice((np.float64, np.float64, np.float32, np.int64, np.uint8))
    numbers = [draw.uniform(-1, 1) for _ in range(int(np.prod(shape)))]
    return np.array(numbers).reshape(shape).astype(dtype)


def random_order(
    draw: random.Random,
    legal: Sequence[Message],
    words: Sequence[str],
    shapes: Sequence[Shape],
) -> Message:
    """A legal order, a changed one, or a message of any kind with random fields."""
    if draw.random() < 0.85:
        found = draw.choice(legal)
        body = type(found.body)()
        body.CopyFrom(found.body)  # type: ignore[arg-type]
        tensors = found.tensors
    else:
        body, tensors = draw.choice([*BODY_FIELDS])(), ()
        fill(body, draw, words)
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        mutate(body, draw, words)
    if type(body) in WITH_TENSOR and (not tensors or draw.random() < 0.5):
        tensors = (random_tensor(type(body), draw, shapes),)
    return Message(body, tensors)


def offer(
    channel: Channel, handle: Callable[[Message], bool], place: pb.Place, message: Message
) -> Exception | None:
    """Hand a message to a spoke as ``Channel.receive`` does; return the error that refuses it.

    Raises:
        Exception: the spoke failed with an error that names no fault of the hub.
    """
    before = channel._phases.phase
    channel.place = place
    try:
        with channel.locate_errors():
            require_complete(message.body, len(message.tensors), RemoteProtocolError)
            check_range(message.tensors, channel.terms.magnitude)
            channel._phases.received(type(message.body))
            handle(message)
    except LocalProtocolError:
        raise
    except (ProtocolError, PolicyError) as error:
        channel._phases.phase = before
        return error
    return None
