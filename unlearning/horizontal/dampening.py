"""AdaClipping-like: parameters that the leaving client needs more than the others are dampened.

Of the family of selective synaptic dampening (Foster et al. 2024); reimplemented from a description
of Xie 2024, hence "like". Letters: I_u, I_r = diagonal Fisher information on the leaving client's
and on the remaining rows, a = ``ratio``, λ = ``strength``.
"""

import torch
from torch import Tensor


def dampened(model: Tensor, own: Tensor, others: Tensor, ratio: float, strength: float) -> Tensor:
    """θ_i min(1, λ I_r,i / I_u,i) where I_u,i > a I_r,i, ``[d]``; θ_i elsewhere."""
    chosen = own > ratio * others
    factor = (strength * others / own.clamp_min(torch.finfo(own.dtype).tiny)).clamp_max(1.0)
    return torch.where(chosen, model * factor, model)
