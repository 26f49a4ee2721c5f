"""What the server sends with a local task, and splitting of vectors into messages."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parties.horizontal.local.local_task import LocalTask, ParameterSource
from parties.horizontal.local.rows import RowKind, TrainingKind
from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.message import Message
from protocol.tensors import MAX_PAYLOAD

DELIVERED: Final = "delivered"  # slot of the run's final model


@dataclass(frozen=True, slots=True)
class SentTask:
    """The content of the message RunTask."""

    rows: TrainingKind  # kind of rows that the task uses
    slots: tuple[str, ...]  # names of the vectors that the task needs in addition to ``model``
    task: LocalTask  # the local task


@dataclass(frozen=True, slots=True)
class SentEvaluation:
    """The content of the message EvaluateRows."""

    rows: RowKind  # kind of rows on which the client evaluates the slot ``model``
    # Whether the client's personal parameters replace those of the model.
    parameters: ParameterSource


def split_vector(vector: "Tensor | NDArray[Any]") -> Iterator[tuple[int, NDArray[Any]]]:
    """Split a vector, ``[n]``, into parts; each part fits into one message.

    Yields:
        For each part: the index of its first element in ``vector``, and the part, ``[part]``.
    """
    whole = vector.detach().cpu().contiguous().numpy() if isinstance(vector, Tensor) else vector
    size = MAX_PAYLOAD // whole.itemsize
    for start in range(0, len(whole), size):
        yield start, whole[start : start + size]


class VectorAssembler:
    """Assembles a vector from the parts that a peer sends in order.

    Args:
        most: largest allowed number of elements of the vector.
        dtype: type of the elements.
    """

    def __init__(self, most: int, dtype: np.dtype[Any]) -> None:
        self._most, self._dtype = most, dtype
        self._vector: NDArray[Any] | None = None
        self._filled = 0

    def add(
        self,
        part: "vfl_pb2.LoadVector | vfl_pb2.Update | vfl_pb2.CiphertextSum | vfl_pb2.DecryptedSum",
        message: Message,
    ) -> Tensor | None:
        """Add a part; return the complete vector, ``[n]``, or None if parts are missing.

        Raises:
            RemoteProtocolError: the vector is too long, or the part does not start where the
                previous part ended.
        """
        if part.start == 0:
            if not 0 < part.size <= self._most:
                raise RemoteProtocolError(
                    f"received a vector of {part.size} elements; expected at most {self._most} "
                    "elements",
                    "compare the agreements: both parties need the same model",
                )
            self._vector, self._filled = None, 0
        values = message.tensor(self._dtype.type, None)
        if part.start == 0:
            if len(values) == part.size:  # the vector has one part and is not copied
                return torch.from_numpy(values)
            self._vector = np.empty(part.size, self._dtype)
        end = self._filled + len(values)
        whole = self._vector
        if (
            whole is None
            or part.start != self._filled
            or part.size != len(whole)
            or end > len(whole)
        ):
            raise RemoteProtocolError(
                "received a part of a vector out of order: the part starts at element "
                f"{part.start}; expected element {self._filled}"
            )
        whole[self._filled : end] = values
        self._filled = end
        if end < len(whole):
            return None
        self._vector = None
        return torch.from_numpy(whole)
