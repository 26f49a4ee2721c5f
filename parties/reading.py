"""What a model makes of some rows: the material of every figure."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True)
class Reading:
    """What the present model makes of some rows.

    Attributes:
        logits: [rows, classes].
        embeddings: [rows, widths of all parties], in the order of ``feature_parties``.
    """

    logits: Tensor
    embeddings: Tensor
