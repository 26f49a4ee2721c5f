"""Reconstruction of a forgotten row from the change of a first layer.

The gradient of a linear layer for one row x is δ xᵀ, and δ for its bias. So a request for a single
row changes the weights by a matrix of nearly rank one, whose direction is the row (Zhu et al. 2019;
Geiping et al. 2020 for several steps). Candidate rows show how much a match is worth.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """Quality of a reconstructed row."""

    cosine: float  # |cos| of the reconstructed row and the true row
    rank: float  # share of candidate rows that fit better; 0 is a perfect guess, 0.5 is chance
    candidates: int


def reconstructed_row(change: Tensor) -> Tensor:
    """Return the row behind a ``change`` of weights: its first right singular vector, ``[in]``.

    ``change`` is ``[out, in]``.
    """
    row: Tensor = torch.linalg.svd(change.double(), full_matrices=False).Vh[0]
    return row


def reconstruction_quality(change: Tensor, row: Tensor, others: Tensor) -> Reconstruction:
    """Compare the row reconstructed from ``change`` with the true row and with other rows.

    ``change`` is ``[out, in]``, ``row`` is ``[in]`` and ``others`` are ``[rows, in]``.
    """
    guess = reconstructed_row(change)
    fits = torch.cosine_similarity(
        torch.cat([row[None], others]).double(), guess[None], dim=1
    ).abs()
    better = (fits[1:] > fits[0]).double() + 0.5 * (fits[1:] == fits[0])
    return Reconstruction(float(fits[0]), float(better.mean()), len(others))
