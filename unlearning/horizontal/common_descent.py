"""MGDA: the direction that lowers every client's loss, the shortest in the hull of their gradients.

FedOSD's ablation M3 unlearns with it, and keeps the client's data (paper 001, Table 5).
"""

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor


def common_descent(gradients: Tensor) -> Tensor:
    """The shortest convex combination of ``[clients, d]``, ``[d]`` (Désidéri 2012).

    Subtracting it lowers all losses to first order; it is zero where none can be lowered without
    raising another.
    """
    wide = gradients.double()
    gram = (wide @ wide.T).numpy()
    largest = float(gram.diagonal().max())
    if largest == 0:
        return torch.zeros_like(gradients[0])
    values, vectors = np.linalg.eigh(gram / largest)
    root = np.sqrt(values.clip(min=0))[:, None] * vectors.T  # rootᵀ root = G Gᵀ
    # With w = s v, v on the simplex, ‖root w‖² + (Σ w − 1)² is least where ‖root v‖ is, whatever s:
    # non-negative least squares (Lawson and Hanson 1974, least distance programming).
    count = len(gram)
    found, _ = nnls(np.vstack([root, np.ones(count)]), np.append(np.zeros(count), 1.0))
    weights = torch.from_numpy(found / found.sum())
    shortest: Tensor = (weights @ wide).to(gradients.dtype)
    return shortest
