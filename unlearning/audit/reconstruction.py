"""Reconstruction of a forgotten row from the weight change of a model's first layer.

For one row x, the gradient of a linear layer is δ xᵀ for the weights and δ for the bias. Therefore
unlearning a single row changes the weights by a matrix of approximately rank one, whose first right
singular vector is the direction of the row (Zhu et al. 2019; Geiping et al. 2020 for several
steps). A comparison with other candidate rows shows whether a match is better than chance.
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
    """Return the row estimated from a ``change`` of weights, as a unit vector, ``[in]``.

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
