"""Frames: a message as bytes, cut so that none is larger than a chunk, and put together again.

first frame    u32 header length | Header (protobuf) | first part of the tensors' raw bytes
next frames    the rest of the tensors' bytes, at most CHUNK each
"""

from collections.abc import Callable, Iterator
from struct import Struct

import numpy as np
from google.protobuf.message import DecodeError

from protocol import vfl_pb2
from protocol.complete import require_complete
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import FIELDS, Message
from protocol.tensors import Tensor, describe, sizes, unpack

CHUNK = 2**20
MAX_HEADER = 2**16
MAX_FRAME = CHUNK + MAX_HEADER + 4
_LENGTH = Struct("<I")


def encode(message: Message, envelope: vfl_pb2.Envelope) -> Iterator[bytes]:
    """The frames of ``message``, each at most ``MAX_FRAME`` bytes.

    Raises:
        LocalProtocolError: the message lacks a field, or is larger than what travels.
    """
    header = _described(message, envelope)
    parts = [np.ascontiguousarray(tensor).data.cast("B") for tensor in message.tensors]
    room = CHUNK
    pieces: list[bytes | memoryview] = [_LENGTH.pack(len(header)), header]
    for part in parts:
        rest = part
        while len(rest) > room:
            yield b"".join([*pieces, rest[:room]])
            rest, pieces, room = rest[room:], [], CHUNK
        pieces.append(rest)
        room -= len(rest)
    yield b"".join(pieces)


def _described(message: Message, envelope: vfl_pb2.Envelope) -> bytes:
    shapes = [describe(tensor) for tensor in message.tensors]
    sizes(shapes, LocalProtocolError)
    require_complete(message.body, len(shapes), LocalProtocolError)
    header = vfl_pb2.Header(
        envelope=envelope,
        tensors=shapes,
        **{FIELDS[type(message.body)]: message.body},  # type: ignore[arg-type]
    ).SerializeToString()
    if len(header) > MAX_HEADER:
        raise LocalProtocolError(f"a header of {len(header)} bytes; at most {MAX_HEADER} travel")
    return header


def decode(receive: Callable[[], bytes]) -> tuple[vfl_pb2.Envelope, Message]:
    """Read one message; ``receive`` brings the next frame.

    Raises:
        RemoteProtocolError: the bytes are not exactly one message of the vocabulary.
    """
    frame = receive()
    header, start = _header(frame)
    field = header.WhichOneof("body")
    if field is None or not header.HasField("envelope"):
        raise RemoteProtocolError("a message without envelope or content")
    body = getattr(header, field)
    require_complete(body, len(header.tensors), RemoteProtocolError)
    parts = sizes(header.tensors)
    payload = _payload(sum(parts), memoryview(frame)[start:], receive)
    return header.envelope, Message(body, unpack(header.tensors, parts, payload))


def _header(frame: bytes) -> tuple[vfl_pb2.Header, int]:
    if len(frame) > MAX_FRAME:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes; at most {MAX_FRAME} are legal")
    if len(frame) < _LENGTH.size:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes is too short for a header")
    (length,) = _LENGTH.unpack_from(frame)
    end = _LENGTH.size + length
    if length > MAX_HEADER or end > len(frame):
        raise RemoteProtocolError(f"a header of {length} bytes in a frame of {len(frame)}")
    header = vfl_pb2.Header()
    try:
        header.ParseFromString(frame[_LENGTH.size : end])
    except DecodeError as error:
        raise RemoteProtocolError("the header is not a message of vfl.proto") from error
    size = header.ByteSize()
    header.DiscardUnknownFields()
    if header.ByteSize() != size:
        raise RemoteProtocolError("the header has unknown fields")
    if size != length:  # protobuf merges messages that are glued together
        raise RemoteProtocolError("the header is more than one message, or not in its usual form")
    return header, end


def _payload(size: int, first: memoryview, receive: Callable[[], bytes]) -> Tensor:
    if len(first) != min(size, CHUNK):
        raise RemoteProtocolError(
            f"{len(first)} bytes follow the header; {min(size, CHUNK)} were described"
        )
    payload = np.empty(size, np.uint8)  # and no zeros are written before the bytes come
    whole = payload.data
    whole[: len(first)] = first
    filled = len(first)
    while filled < size:
        frame = receive()
        if len(frame) != min(size - filled, CHUNK):
            raise RemoteProtocolError(f"a chunk of {len(frame)} bytes is not the described rest")
        whole[filled : filled + len(frame)] = frame
        filled += len(frame)
    return payload
