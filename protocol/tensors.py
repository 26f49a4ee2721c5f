"""Tensors on the wire: the description in the header, and the checks of received tensors."""

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from protocol import vfl_pb2
from protocol.errors import LocalProtocolError, ProtocolError, RemoteProtocolError

Tensor: TypeAlias = NDArray[Any]

DTYPES: dict[int, np.dtype[Any]] = {
    vfl_pb2.FLOAT32: np.dtype("<f4"),
    vfl_pb2.FLOAT64: np.dtype("<f8"),
    vfl_pb2.INT64: np.dtype("<i8"),
    vfl_pb2.BYTES: np.dtype("u1"),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}
MAX_RANK = 4
MAX_DIM = 2**31
MAX_PAYLOAD = 16 * 2**20  # bytes of all tensors of one message; senders split a larger tensor


def describe_tensor(tensor: Tensor) -> vfl_pb2.TensorShape:
    """Return the description of ``tensor``, which has any shape, for the message header.

    Raises:
        LocalProtocolError: the element type is not one of the four types of the protocol.
    """
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise LocalProtocolError(f"a tensor has type {tensor.dtype}; legal: {_legal()}")
    return vfl_pb2.TensorShape(dtype=code, dims=tensor.shape)  # type: ignore[arg-type]


def tensor_sizes(
    shapes: Iterable[vfl_pb2.TensorShape], fault: type[ProtocolError] = RemoteProtocolError
) -> list[int]:
    """Return the size in bytes of each tensor that ``shapes`` describes, before memory is used.

    Raises:
        fault: a type, a rank, a dimension or the total size is not legal. ``fault`` is the error
            class that the caller chose.
    """
    found = [_size(shape, fault) for shape in shapes]
    whole = sum(found)
    if whole > MAX_PAYLOAD:
        raise fault(f"the tensors have {whole} bytes; a message has at most {MAX_PAYLOAD}")
    return found


def _size(shape: vfl_pb2.TensorShape, fault: type[ProtocolError]) -> int:
    dtype = DTYPES.get(shape.dtype)
    if dtype is None:
        raise fault(f"a tensor has the unknown type {shape.dtype}; legal: {_legal()}")
    dims = list(shape.dims)
    if not 1 <= len(dims) <= MAX_RANK:
        raise fault(f"a tensor has rank {len(dims)}; legal: 1 to {MAX_RANK}")
    if min(dims) < 1 or max(dims) >= MAX_DIM:
        raise fault(f"a tensor has dimensions {dims}; legal: 1 to 2^31 - 1")
    return prod(dims) * dtype.itemsize


def unpack_tensors(
    shapes: Sequence[vfl_pb2.TensorShape], sizes: Sequence[int], payload: Tensor
) -> tuple[Tensor, ...]:
    """Return the tensors that ``shapes`` describes, as views of ``payload`` ``[bytes]``.

    ``sizes`` are the sizes of the tensors in bytes. Each tensor has the shape that ``shapes``
    describes.
    """
    tensors, start = [], 0
    for shape, size in zip(shapes, sizes, strict=True):
        part = payload[start : start + size].view(DTYPES[shape.dtype])
        tensors.append(part.reshape(tuple(shape.dims)))
        start += size
    return tuple(tensors)


def check_range(tensors: Iterable[Tensor], bound: float) -> None:
    """Check that all elements of ``tensors``, of any shape, lie between -``bound`` and ``bound``.

    Raises:
        RemoteProtocolError: an element is NaN, infinite or out of range; the error contains the row
            number of the element.
    """
    for tensor in tensors:
        # If an element is NaN, minimum and maximum are NaN, and every comparison is false.
        if tensor.dtype.kind == "f" and not (tensor.max() <= bound and tensor.min() >= -bound):
            rows = ~(np.abs(tensor.reshape(len(tensor), -1)).max(axis=1) <= bound)
            raise RemoteProtocolError(
                f"row {int(np.argmax(rows))} of a tensor is NaN, infinite or beyond ±{bound:g}",
                "lower the learning rate, or scale the peer's features",
            )


def _legal() -> str:
    return ", ".join(dtype.name for dtype in _CODES)
