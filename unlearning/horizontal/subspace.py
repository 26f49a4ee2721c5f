"""SFU: the leaving client's ascent, kept out of the subspace that the other clients' inputs span.

Letters (Li et al. 2023): R_l = the inputs of layer l, ``[width, rows]``, at the remaining clients;
ε = ``energy``. A linear layer's update moves outputs on inputs x by ΔW x + Δb, so an update
[ΔW | Δb] that is orthogonal to the subspace of [x; 1] moves none of them. The bias is ours: moved
alone it moves every output.
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


def with_ones(inputs: Tensor) -> Tensor:
    """Inputs ``[width, rows]`` with a row of ones, which a layer's bias weighs."""
    return torch.cat([inputs, inputs.new_ones(1, inputs.shape[1])])


def outside(update: Tensor, kept: Tensor) -> Tensor:
    """A weight's update, ``[out, width]``, without its part in the span of ``[width, k]``."""
    return update - (update @ kept) @ kept.T
