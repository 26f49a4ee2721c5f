"""Exact unlearning by shards (SISA): each row belongs to one shard, and each shard has a model.

Only the models of shards with forgotten rows are retrained. The method of Bourtoule et al. 2019
(arXiv 1912.03817) is adapted to vertically split data. Each party computes the shard of a row from
the row's ID by a keyed function that all parties share, so the shards of the rows need not be sent.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RowIndex = NDArray[np.int64]


def shard_of(words: NDArray[np.uint64], shards: int) -> RowIndex:
    """Return the shard of each row, ``[rows]``.

    ``words`` are keyed hashes of the IDs, ``[rows]``.
    """
    # Sharding of Bourtoule et al. 2019, by a keyed function k: PRF_k(aligned id) mod S.
    return (words % np.uint64(shards)).astype(np.int64)


def affected_shards(of: RowIndex, rows: RowIndex) -> list[int]:
    """Return the shards that contain at least one of ``rows``, in ascending order.

    ``of`` is the shard of each row of the data, ``[rows]``; ``rows`` are the positions of the
    forgotten rows, ``[forgotten]``.
    """
    return [int(shard) for shard in np.unique(of[rows])]


def mean_shard_logits(logits: Sequence[Tensor]) -> Tensor:
    """Return the mean of the outputs of all shards' models, ``[rows, classes]``.

    ``logits`` holds the outputs of each shard's model, ``[rows, classes]``.
    """
    return torch.stack(list(logits)).mean(dim=0)
