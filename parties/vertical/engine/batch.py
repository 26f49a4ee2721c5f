"""What passes through the halves of the model: a batch, its use, its answers, and what is read."""

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from parties.common.shared_randomness import Index
from protocol import vfl_pb2

# The questions whose gradients make one step; two where micro-batches hide the network.
Group: TypeAlias = tuple[vfl_pb2.Ask, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch as the active party sees it once the embeddings are in.

    Attributes:
        share: part of the step's rows that this batch has; below 1 for micro-batches.
        last: no other batch of the step follows.
        reports: the passive parties'.
    """

    ask: vfl_pb2.Ask
    rows: Index
    logits: Tensor
    labels: Tensor
    reports: list[vfl_pb2.Report]
    share: float = 1.0
    last: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What the present model makes of some rows.

    Attributes:
        logits: [rows, classes].
        embeddings: [rows, widths of all parties], in the order of ``feature_parties``.
    """

    logits: Tensor
    embeddings: Tensor


@dataclass(frozen=True, slots=True)
class Use:
    """What becomes of a batch: the scalar to differentiate, and what its gradient is for."""

    loss: Tensor
    order: vfl_pb2.Gradient


@dataclass(frozen=True, slots=True)
class Answered:
    """The gradients that the passive parties got for a batch."""

    rows: Index
    gradients: dict[str, Tensor]
