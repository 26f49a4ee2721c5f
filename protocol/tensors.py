"""Tensors on the wire: how a header describes them, and the checks before one is believed."""

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
MAX_PAYLOAD = 16 * 2**20  # bytes of all tensors of one message; senders split what is larger


def describe(tensor: Tensor) -> vfl_pb2.TensorShape:
    """The header entry of ``tensor``.

    Raises:
        LocalProtocolError: the element type is not one of the four that travel.
    """
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise LocalProtocolError(f"a tensor of {tensor.dtype} cannot travel; legal: {_legal()}")
    return vfl_pb2.TensorShape(dtype=code, dims=tensor.shape)  # type: ignore[arg-type]


def sizes(
    shapes: Iterable[vfl_pb2.TensorShape], fault: type[ProtocolError] = RemoteProtocolError
) -> list[int]:
    """Bytes of each described tensor, computed in exact integers before anything is allocated.

    Raises:
        fault: a type, rank, dimension or the total is outside what is legal.
    """
    found = [_size(shape, fault) for shape in shapes]
    whole = sum(found)
    if whole > MAX_PAYLOAD:
        raise fault(f"tensors of {whole} bytes; at most {MAX_PAYLOAD} travel")
    return found


def _size(shape: vfl_pb2.TensorShape, fault: type[ProtocolError]) -> int:
    dtype = DTYPES.get(shape.dtype)
    if dtype is None:
        raise fault(f"tensor type {shape.dtype} is unknown; legal: {_legal()}")
    dims = list(shape.dims)
    if not 1 <= len(dims) <= MAX_RANK:
        raise fault(f"a tensor of rank {len(dims)}; legal: 1 to {MAX_RANK}")
    if min(dims) < 1 or max(dims) >= MAX_DIM:
        raise fault(f"tensor dimensions {dims}; legal: 1 to 2^31 - 1")
    return prod(dims) * dtype.itemsize


def unpack(
    shapes: Sequence[vfl_pb2.TensorShape], sizes: Sequence[int], payload: Tensor
) -> tuple[Tensor, ...]:
    """Views of ``payload`` as the described tensors, which are so many bytes each."""
    tensors, start = [], 0
    for shape, size in zip(shapes, sizes, strict=True):
        part = payload[start : start + size].view(DTYPES[shape.dtype])
        tensors.append(part.reshape(tuple(shape.dims)))
        start += size
    return tuple(tensors)


def check_range(tensors: Iterable[Tensor], bound: float) -> None:
    """Refuse what is not finite or larger than ``bound`` in magnitude.

    Raises:
        RemoteProtocolError: names the first bad row, never a value.
    """
    for tensor in tensors:
        # NaN is the minimum and maximum of whatever has one, and compares false with everything.
        if tensor.dtype.kind == "f" and not (tensor.max() <= bound and tensor.min() >= -bound):
            rows = ~(np.abs(tensor.reshape(len(tensor), -1)).max(axis=1) <= bound)
            raise RemoteProtocolError(
                f"row {int(np.argmax(rows))} of a tensor is NaN, infinite or beyond ±{bound:g}",
                "the peer's model diverged, or its features are not scaled",
            )


def _legal() -> str:
    return ", ".join(dtype.name for dtype in _CODES)
