"""EWC-SGA: ascent on the leaving client's loss, held back where the others need the parameters.

Letters (Wu et al. 2022): F = diagonal Fisher information on the remaining clients' rows, θ_g = the
global model before, λ = ``strength``. The source climbs the penalty, too, which would push away
from θ_g; here the loss is climbed and the penalty descended.
"""

from collections.abc import Sequence

from torch import Tensor

FLOOR = 1e-8  # of an entry of F


def importance(squares: Sequence[Tensor], rows: Sequence[int]) -> Tensor:
    """F, ``[d]``: the clients' mean squared gradients, weighted by their rows, and a floor."""
    total = sum(rows)
    mean = sum((n / total * each for n, each in zip(rows, squares, strict=True)), 0 * squares[0])
    found: Tensor = mean.clamp_min(FLOOR)
    return found


def elastic_gradient(
    climb: Tensor, model: Tensor, before: Tensor, fisher: Tensor, strength: float
) -> Tensor:
    """The gradient of −L_ce(D_u) + (λ/2) Σ F_i (θ_i − θ_g,i)², ``[d]``; ``climb`` is ∇L_ce(D_u)."""
    return -climb + strength * fisher * (model - before)
