"""MoDe: the model drifts towards one that never saw the leaving client; the others guide it.

Letters (Zhao et al. 2023): M_u = the model that unlearns, M_d = the degradation model, freshly
initialised and trained by the remaining clients in parallel, λ = ``momentum``.
"""

from torch import Tensor


def degraded(model: Tensor, degradation: Tensor, momentum: float) -> Tensor:
    """M_u ← λ M_u + (1 − λ) M_d, ``[d]``."""
    return momentum * model + (1 - momentum) * degradation
