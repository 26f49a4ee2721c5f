"""Model-difference reconstruction: what one row left in the change of a first layer.

A linear layer's gradient for one row is δ xᵀ, and δ for its bias: the change of the weights by a
single-row request is near to rank one, and its direction is the row (Zhu et al. 2019; Geiping et
al. 2020 for steps). The candidate rows say how much a match is worth.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """How well the change of a layer points to the row."""

    cosine: float  # |cos| of the reconstructed row and the true one
    rank: float  # share of other rows that fit better; 0 is a perfect guess, 0.5 is chance
    candidates: int


def reconstruct(change: Tensor) -> Tensor:
    """The row behind a change of ``[out, in]`` weights: its first right singular vector."""
    found: Tensor = torch.linalg.svd(change.double(), full_matrices=False).Vh[0]
    return found


def reconstruction(change: Tensor, row: Tensor, others: Tensor) -> Reconstruction:
    """Compare what ``change`` gives away with the ``[in]`` row and with others, ``[rows, in]``."""
    guess = reconstruct(change)
    fits = torch.cosine_similarity(
        torch.cat([row[None], others]).double(), guess[None], dim=1
    ).abs()
    better = (fits[1:] > fits[0]).double() + 0.5 * (fits[1:] == fits[0])
    return Reconstruction(float(fits[0]), float(better.mean()), len(others))
