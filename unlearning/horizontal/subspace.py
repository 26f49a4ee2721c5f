"""SFU: the leaving client's ascent, kept out of the subspace that the other clients' inputs span.

Letters (Li et al. 2023): R_l = the inputs of layer l, ``[width, rows]``, at the remaining clients;
ε = ``energy``. A linear layer's update moves outputs on inputs x by ΔW x, so an update that is
orthogonal to their subspace moves none of them.
"""

import torch
from torch import Tensor


def directions(inputs: Tensor, energy: float) -> Tensor:
    """The leading left singular vectors of ``[width, rows]``, ``[width, k]``, that hold ``energy``.

    k is the least number whose squared singular values are that part of all; none of nothing.
    """
    vectors, sizes, _ = torch.linalg.svd(inputs.double(), full_matrices=False)
    squares = sizes.square()
    total = float(squares.sum())
    k = int((squares.cumsum(0) < (energy - 1e-12) * total).sum()) + 1 if total else 0
    found: Tensor = vectors[:, :k].to(inputs.dtype)
    return found


def outside(update: Tensor, kept: Tensor) -> Tensor:
    """A weight's update, ``[out, width]``, without its part in the span of ``[width, k]``."""
    return update - (update @ kept) @ kept.T
