"""A message: one typed thing that can be said, and the tensors that travel with it."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.tensors import Tensor

Body: TypeAlias = (
    vfl_pb2.Hello
    | vfl_pb2.Welcome
    | vfl_pb2.Accept
    | vfl_pb2.Abort
    | vfl_pb2.Goodbye
    | vfl_pb2.Open
    | vfl_pb2.Share
    | vfl_pb2.Shares
    | vfl_pb2.Offer
    | vfl_pb2.Answer
    | vfl_pb2.Matrix
    | vfl_pb2.Store
    | vfl_pb2.Matches
    | vfl_pb2.Aligned
    | vfl_pb2.Blinded
    | vfl_pb2.Evaluated
    | vfl_pb2.Proof
    | vfl_pb2.Arrange
    | vfl_pb2.Done
    | vfl_pb2.Ask
    | vfl_pb2.Embedding
    | vfl_pb2.Step
    | vfl_pb2.Gradient
    | vfl_pb2.Forget
    | vfl_pb2.Purge
    | vfl_pb2.Stamp
    | vfl_pb2.Look
    | vfl_pb2.Show
    | vfl_pb2.Resume
    | vfl_pb2.Resumed
    | vfl_pb2.Load
    | vfl_pb2.Teach
    | vfl_pb2.Change
    | vfl_pb2.Learned
    | vfl_pb2.Read
    | vfl_pb2.Measured
    | vfl_pb2.Attend
    | vfl_pb2.Follow
    | vfl_pb2.Gather
    | vfl_pb2.MaskKeys
    | vfl_pb2.Pairs
    | vfl_pb2.Sealed
    | vfl_pb2.Deal
    | vfl_pb2.There
    | vfl_pb2.Opened
    | vfl_pb2.SealKey
    | vfl_pb2.Entrust
    | vfl_pb2.SumKey
    | vfl_pb2.Total
    | vfl_pb2.Assent
    | vfl_pb2.Assents
    | vfl_pb2.Unsealed
)

Kind = TypeVar("Kind", bound=Body)

_BODY = vfl_pb2.Header.DESCRIPTOR.oneofs_by_name["body"]
FIELDS: dict[type[Body], str] = {
    getattr(vfl_pb2, field.message_type.name): field.name  # type: ignore[union-attr]
    for field in _BODY.fields
}
WITH_TENSOR: frozenset[type[Body]] = frozenset(  # these bring one tensor, the others none
    (
        vfl_pb2.Matrix,
        vfl_pb2.Store,
        vfl_pb2.Matches,
        vfl_pb2.Blinded,
        vfl_pb2.Evaluated,
        vfl_pb2.Embedding,
        vfl_pb2.Step,
        vfl_pb2.Gradient,
        vfl_pb2.Forget,
        vfl_pb2.Stamp,
        vfl_pb2.Look,
        vfl_pb2.Load,
        vfl_pb2.Change,
        vfl_pb2.SumKey,
        vfl_pb2.Total,
        vfl_pb2.Unsealed,
    )
)


@dataclass(frozen=True, slots=True)
class Message:
    """What is said: a generated class of ``vfl.proto`` and its tensors."""

    body: Body
    tensors: tuple[Tensor, ...] = ()

    @property
    def kind(self) -> str:
        """The word for this message, as in ``vfl.proto``."""
        return type(self.body).__name__

    def expect(self, kind: type[Kind]) -> Kind:
        """The content as ``kind``; raises ``RemoteProtocolError`` when it is another."""
        if not isinstance(self.body, kind):
            raise RemoteProtocolError(f"said {self.kind} instead of {kind.__name__}")
        return self.body

    def tensor(self, dtype: type[np.generic], *shape: int | None) -> Tensor:
        """The only tensor; None stands for any size.

        Raises:
            RemoteProtocolError: there is not exactly one, or it has another type or shape.
        """
        found = [(tensor.dtype.name, list(tensor.shape)) for tensor in self.tensors]
        fits = len(found) == 1 and self.tensors[0].dtype == dtype and len(found[0][1]) == len(shape)
        if not fits or any(w not in (None, f) for f, w in zip(found[0][1], shape, strict=True)):
            wanted = ["any" if size is None else size for size in shape]
            raise RemoteProtocolError(
                f"{self.kind} brought {found}; it must be one {np.dtype(dtype).name} of {wanted}"
            )
        return self.tensors[0]
