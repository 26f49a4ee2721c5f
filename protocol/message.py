"""A message: one body of ``vfl.proto`` and the tensors that travel with it."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np

from protocol import vfl_pb2
from protocol.errors import RemoteProtocolError
from protocol.proto_options import read_option
from protocol.tensors import Tensor

Body: TypeAlias = (
    vfl_pb2.Hello
    | vfl_pb2.Welcome
    | vfl_pb2.Accept
    | vfl_pb2.Abort
    | vfl_pb2.Goodbye
    | vfl_pb2.StartAlignment
    | vfl_pb2.KeyShare
    | vfl_pb2.KeyShares
    | vfl_pb2.OtOffer
    | vfl_pb2.OtAnswer
    | vfl_pb2.OprfMatrix
    | vfl_pb2.KeyValueStore
    | vfl_pb2.MatchTags
    | vfl_pb2.Aligned
    | vfl_pb2.SplitRows
    | vfl_pb2.BlindedElements
    | vfl_pb2.EvaluatedElements
    | vfl_pb2.EvaluationProof
    | vfl_pb2.ModelCommand
    | vfl_pb2.Done
    | vfl_pb2.BatchRequest
    | vfl_pb2.Embedding
    | vfl_pb2.Step
    | vfl_pb2.Gradient
    | vfl_pb2.ForgetRows
    | vfl_pb2.Purge
    | vfl_pb2.PlantTrigger
    | vfl_pb2.Predict
    | vfl_pb2.SyncJournal
    | vfl_pb2.JournalEvents
    | vfl_pb2.Evaluate
    | vfl_pb2.Resume
    | vfl_pb2.Resumed
    | vfl_pb2.LoadVector
    | vfl_pb2.RunTask
    | vfl_pb2.Update
    | vfl_pb2.LocalUpdate
    | vfl_pb2.EvaluateRows
    | vfl_pb2.Metrics
    | vfl_pb2.SelectRequest
    | vfl_pb2.KeepVersion
    | vfl_pb2.SwitchBranch
    | vfl_pb2.StartSum
    | vfl_pb2.MaskKeys
    | vfl_pb2.MemberKeys
    | vfl_pb2.SealedShares
    | vfl_pb2.ShareSeed
    | vfl_pb2.Present
    | vfl_pb2.RevealedShares
    | vfl_pb2.SealingKey
    | vfl_pb2.ShareKey
    | vfl_pb2.SumKey
    | vfl_pb2.CiphertextSum
    | vfl_pb2.Approve
    | vfl_pb2.Approvals
    | vfl_pb2.DecryptedSum
)

Kind = TypeVar("Kind", bound=Body)

_BODY = vfl_pb2.Header.DESCRIPTOR.oneofs_by_name["body"]
BODY_FIELDS: dict[type[Body], str] = {
    getattr(vfl_pb2, field.message_type.name): field.name  # type: ignore[union-attr]
    for field in _BODY.fields
}
WITH_TENSOR: frozenset[type[Body]] = frozenset(  # with one tensor; all others have none
    kind for kind in BODY_FIELDS if read_option(kind.DESCRIPTOR, vfl_pb2.tensor)
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message body, which is an instance of a class of ``vfl.proto``, and its tensors."""

    body: Body
    tensors: tuple[Tensor, ...] = ()

    @property
    def kind(self) -> str:
        """The message's name in ``vfl.proto``."""
        return type(self.body).__name__

    def expect(self, kind: type[Kind]) -> Kind:
        """Return the body, which must be of this ``kind``.

        Raises:
            RemoteProtocolError: the body is of another kind.
        """
        if not isinstance(self.body, kind):
            raise RemoteProtocolError(f"the peer sent {self.kind}; expected {kind.__name__}")
        return self.body

    def tensor(self, dtype: type[np.generic], *shape: int | None) -> Tensor:
        """Return the message's only tensor, ``[*shape]``, where None in ``shape`` allows any size.

        Raises:
            RemoteProtocolError: there is not exactly one tensor, or the type or the shape is wrong.
        """
        found = [(tensor.dtype.name, list(tensor.shape)) for tensor in self.tensors]
        fits = len(found) == 1 and self.tensors[0].dtype == dtype and len(found[0][1]) == len(shape)
        if not fits or any(w not in (None, f) for f, w in zip(found[0][1], shape, strict=True)):
            wanted = ["any" if size is None else size for size in shape]
            raise RemoteProtocolError(
                f"{self.kind} has tensors {found}; expected one {np.dtype(dtype).name} of {wanted}"
            )
        return self.tensors[0]
