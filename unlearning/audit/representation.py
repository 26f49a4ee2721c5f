"""Representations compared: do two models see the same rows alike, whatever their coordinates."""

from torch import Tensor


def linear_cka(left: Tensor, right: Tensor) -> float | None:
    """Linear CKA of ``[rows, width]`` embeddings: 1 for a rotation and scaling of one another.

    ‖YᵀX‖² / (‖XᵀX‖ ‖YᵀY‖) with columns centred (Kornblith et al., ICML 2019, Eq. 3). None where
    one of them is the same for every row.
    """
    x, y = (each.double() - each.double().mean(dim=0) for each in (left, right))
    scale = (x.T @ x).norm() * (y.T @ y).norm()
    return float((y.T @ x).norm().square() / scale) if scale > 0 else None
