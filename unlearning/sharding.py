"""Exact unlearning by shards: every row teaches one small model, and only those that it taught go.

Bourtoule et al. 2019 (arXiv 1912.03817), for parties that hold columns: which shard a row is in
follows from its ID by a keyed function that all parties share, so nobody needs to be told.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Index = NDArray[np.int64]


def shard_of(words: NDArray[np.uint64], shards: int) -> Index:
    """Return the shard of every row, [rows], from a keyed word of its ID."""
    # PRF_k(aligned id) mod S
    return (words % np.uint64(shards)).astype(np.int64)


def touched(of: Index, rows: Index) -> list[int]:
    """Return the shards that any of ``rows`` taught, ascending; ``of`` is every row's shard."""
    return [int(shard) for shard in np.unique(of[rows])]


def vote(logits: Sequence[Tensor]) -> Tensor:
    """Return the mean of the shards' outputs, each [rows, classes]."""
    return torch.stack(list(logits)).mean(dim=0)
