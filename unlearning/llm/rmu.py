"""RMU: hidden activations of forgotten texts are led to a random direction, others are held.

Letters (Li et al. 2024, arXiv 2403.03218): M = activations of one layer, u = the random direction,
c = ``coefficient``, d = width.
"""

from typing import Final

import torch
from torch import Tensor

from unlearning.llm.promise import measured

PROMISE: Final = measured(
    "One layer is misled, the weights behind it still know; fine-tuning may bring answers back."
)


def steering(width: int, coefficient: float, seed: int) -> Tensor:
    """Return c · u/‖u‖, ``[d]``, with u ~ U[0, 1]^d: the same for the same seed everywhere.

    It is fixed for a run, so all clients make it from one seed.
    """
    u = torch.rand(width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found: Tensor = coefficient * u / u.norm()
    return found


def rmu_forget(activations: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Return how far ``[batch, tokens, d]`` activations are from the ``[d]`` steering vector.

    The mean over the batch of each row's mean over the tokens of ``mask`` ``[batch, tokens]``, of
    the squared distance divided by d (the paper's ‖·‖² is d times it, in both terms).

    Raises:
        ValueError: a row has no token in ``mask``.
    """
    return _distance(activations, target.to(activations).expand_as(activations), mask)


def rmu_retain(activations: Tensor, frozen: Tensor, mask: Tensor) -> Tensor:
    """Return how far activations are from the frozen model's, measured as in ``rmu_forget``.

    Raises:
        ValueError: a row has no token in ``mask``.
    """
    return _distance(activations, frozen.detach().to(activations), mask)


def _distance(activations: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    counts = mask.sum(dim=1)
    if not bool((counts > 0).all()):
        bare = (counts == 0).nonzero().flatten().tolist()
        raise ValueError(f"rows {bare} have no token in the mask; every row needs one")
    # WMDP Eq 1 and 2: E_x 1/L_x Σ_t ‖M(t) − target‖², by the width as in the authors' program.
    squares = (activations - target).square().mean(dim=2)
    # Where the mask is off nothing is added, not even what is not finite in the padding.
    kept = torch.where(mask.bool(), squares, 0.0)
    return (kept.sum(dim=1) / counts).mean()
