"""Frames: encode a message as byte strings of bounded size, and decode it.

The first frame has the header length (u32), the Header (protobuf) and at most CHUNK raw bytes of
the tensors. Each further frame has at most CHUNK of the remaining bytes.
"""

from collections.abc import Callable, Iterator
from struct import Struct

import numpy as np
from google.protobuf.message import DecodeError

from protocol import vfl_pb2
from protocol.completeness import require_complete
from protocol.errors import LocalProtocolError, RemoteProtocolError
from protocol.message import BODY_FIELDS, Message
from protocol.tensors import Tensor, describe_tensor, tensor_sizes, unpack_tensors

CHUNK = 2**20
MAX_HEADER = 2**16
MAX_FRAME = CHUNK + MAX_HEADER + 4
_LENGTH = Struct("<I")


def encode_message(message: Message, envelope: vfl_pb2.Envelope) -> Iterator[bytes]:
    """Yield the frames of ``message``, each of at most ``MAX_FRAME`` bytes.

    Raises:
        LocalProtocolError: the message lacks a field, or is too large.
    """
    header = _encode_header(message, envelope)
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


def _encode_header(message: Message, envelope: vfl_pb2.Envelope) -> bytes:
    shapes = [describe_tensor(tensor) for tensor in message.tensors]
    tensor_sizes(shapes, LocalProtocolError)
    require_complete(message.body, len(shapes), LocalProtocolError)
    header = vfl_pb2.Header(
        envelope=envelope,
        tensors=shapes,
        **{BODY_FIELDS[type(message.body)]: message.body},  # type: ignore[arg-type]
    ).SerializeToString()
    if len(header) > MAX_HEADER:
        raise LocalProtocolError(
            f"the header of {message.kind} has {len(header)} bytes; at most {MAX_HEADER} are legal"
        )
    return header


def decode_message(receive: Callable[[], bytes]) -> tuple[vfl_pb2.Envelope, Message]:
    """Read one message; ``receive`` returns the next frame.

    Raises:
        RemoteProtocolError: the frames are not exactly one message of ``vfl.proto``.
    """
    frame = receive()
    header, start = _decode_header(frame)
    field = header.WhichOneof("body")
    if field is None or not header.HasField("envelope"):
        raise RemoteProtocolError("the message lacks its envelope or its body")
    body = getattr(header, field)
    require_complete(body, len(header.tensors), RemoteProtocolError)
    parts = tensor_sizes(header.tensors)
    payload = _read_payload(sum(parts), memoryview(frame)[start:], receive)
    return header.envelope, Message(body, unpack_tensors(header.tensors, parts, payload))


def _decode_header(frame: bytes) -> tuple[vfl_pb2.Header, int]:
    """Return the header and the index of the first byte behind it."""
    if len(frame) > MAX_FRAME:
        raise RemoteProtocolError(f"a frame has {len(frame)} bytes; at most {MAX_FRAME} are legal")
    if len(frame) < _LENGTH.size:
        raise RemoteProtocolError(
            f"a frame has {len(frame)} bytes; at least {_LENGTH.size} are needed for a header"
        )
    (length,) = _LENGTH.unpack_from(frame)
    end = _LENGTH.size + length
    if length > MAX_HEADER or end > len(frame):
        raise RemoteProtocolError(
            f"the header length is {length} in a frame of {len(frame)} bytes; "
            f"at most {min(MAX_HEADER, len(frame) - _LENGTH.size)} is legal"
        )
    header = vfl_pb2.Header()
    try:
        header.ParseFromString(frame[_LENGTH.size : end])
    except DecodeError as error:
        raise RemoteProtocolError("the header is not a message of vfl.proto") from error
    size = header.ByteSize()
    header.DiscardUnknownFields()
    if header.ByteSize() != size:
        raise RemoteProtocolError("the header has unknown fields")
    if size != length:  # protobuf merges concatenated messages into one
        raise RemoteProtocolError(
            "the header contains several messages, or is not in the shortest protobuf encoding"
        )
    return header, end


def _read_payload(size: int, first: memoryview, receive: Callable[[], bytes]) -> Tensor:
    """Return the ``[size]`` bytes of all tensors."""
    if len(first) != min(size, CHUNK):
        raise RemoteProtocolError(
            f"{len(first)} bytes follow the header; expected {min(size, CHUNK)}"
        )
    payload = np.empty(size, np.uint8)  # not zeros: every byte is written below
    whole = payload.data
    whole[: len(first)] = first
    filled = len(first)
    while filled < size:
        frame = receive()
        wanted = min(size - filled, CHUNK)
        if len(frame) != wanted:
            raise RemoteProtocolError(f"a frame has {len(frame)} tensor bytes; expected {wanted}")
        whole[filled : filled + len(frame)] = frame
        filled += len(frame)
    return payload
