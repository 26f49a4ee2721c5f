"""A message: one typed thing that can be said, and the tensors that travel with it."""

from dataclasses import dataclass
from typing import TypeAlias

from protocol import vfl_pb2
from protocol.tensors import Tensor

Body: TypeAlias = (
    vfl_pb2.Hello
    | vfl_pb2.Welcome
    | vfl_pb2.Accept
    | vfl_pb2.Abort
    | vfl_pb2.Goodbye
    | vfl_pb2.Share
    | vfl_pb2.Shares
    | vfl_pb2.Offer
    | vfl_pb2.Answer
    | vfl_pb2.Matrix
    | vfl_pb2.Store
    | vfl_pb2.Matches
    | vfl_pb2.Aligned
    | vfl_pb2.Arrange
    | vfl_pb2.Done
    | vfl_pb2.Ask
    | vfl_pb2.Embedding
    | vfl_pb2.Step
    | vfl_pb2.Gradient
    | vfl_pb2.Forget
    | vfl_pb2.Purge
)

_BODY = vfl_pb2.Header.DESCRIPTOR.oneofs_by_name["body"]
FIELDS: dict[type[Body], str] = {
    getattr(vfl_pb2, field.message_type.name): field.name  # type: ignore[union-attr]
    for field in _BODY.fields
}


@dataclass(frozen=True, slots=True)
class Message:
    """What is said: a generated class of ``vfl.proto`` and its tensors."""

    body: Body
    tensors: tuple[Tensor, ...] = ()

    @property
    def kind(self) -> str:
        """The word for this message, as in ``vfl.proto``."""
        return type(self.body).__name__
