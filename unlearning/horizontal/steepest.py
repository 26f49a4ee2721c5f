"""FedOSD: the steepest way to unlearn that conflicts with no other client, and the way back.

Letters (paper 001): G = the remaining clients' pseudo-gradients, ``[clients, d]``; g_u = that of
the client that leaves, under the unlearning loss; d = what is *subtracted* from ω; g_a = ω − ω⁰,
the way that unlearning went.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Projection: TypeAlias = Literal["conditional", "always", "none"]
CUT = 1e-10  # of the largest eigenvalue of G Gᵀ; smaller ones are no directions
MOST = 100.0  # ‖g_u‖ / ‖r‖, beyond which what is left of g_u is noise


@dataclass(frozen=True, slots=True)
class Steepest:
    """A direction to subtract.

    Attributes:
        direction: d, ``[d]``, of g_u's norm; None where g_u lies in the span of G, so that the
            round must be skipped.
        cosine: the largest |cos(g_i, d)| over the remaining clients; 0 but for rounding.
        kept: ‖r‖ / ‖g_u‖, the part of g_u that conflicts with nobody.
    """

    direction: Tensor | None
    cosine: float
    kept: float


def orthogonal_steepest_descent(g_u: Tensor, others: Tensor) -> Steepest:
    """The direction nearest to ``g_u`` ``[d]`` that is orthogonal to all of ``[clients, d]``.

    Computed in float64. Clients whose gradient is zero ask for nothing.
    """
    wide, target = others.double(), g_u.double()
    # FedOSD Eq 6: r = g_u − Gᵀ (G Gᵀ)⁺ G g_u; once more, for what rounding left.
    inverse = torch.linalg.pinv(wide @ wide.T, hermitian=True, rtol=CUT)
    rest = target
    for _ in range(2):
        rest = rest - wide.T @ (inverse @ (wide @ rest))
    before, after = float(target.norm()), float(rest.norm())
    if before == 0 or after * MOST < before:
        return Steepest(None, 0.0, after / before if before else 0.0)
    # The paper's μ has exponent 4 where 3 is right: d must have the norm of g_u.
    direction = rest * (before / after)
    return Steepest(direction.to(g_u.dtype), _largest_cosine(wide, direction), after / before)


def cosines(others: Tensor, direction: Tensor) -> Tensor:
    """cos(g_i, d) of every client, ``[clients]``; 0 for a gradient of zero.

    Subtracting d raises the loss of clients whose cosine is negative: they are in conflict.
    """
    wide, d = others.double(), direction.double()
    sizes = wide.norm(dim=1) * d.norm()
    return torch.where(sizes > 0, wide @ d / sizes.clamp_min(torch.finfo(sizes.dtype).tiny), 0.0)


def _largest_cosine(others: Tensor, direction: Tensor) -> float:
    return float(cosines(others, direction).abs().max()) if len(others) else 0.0


def not_back(gradient: Tensor, away: Tensor, project: Projection = "conditional") -> Tensor:
    """A remaining client's pseudo-gradient, ``[d]``, without what leads back to the original.

    ``away`` is g_a. Subtracting a gradient with g_i · g_a > 0 moves towards ω⁰; ``always`` is what
    the authors' program does. The norm stays; where nothing is left, the gradient is zero.
    """
    along, square = float(gradient.double() @ away.double()), float(away.double().square().sum())
    if project == "none" or square == 0 or (project == "conditional" and along <= 0):
        return gradient
    # FedOSD Eq 7: g_i ← g_i − (g_i · g_a / ‖g_a‖²) g_a, scaled to its norm as in Alg 1, line 17.
    rest = gradient.double() - along / square * away.double()
    before, after = float(gradient.double().norm()), float(rest.norm())
    if after * MOST * 1e6 < before:
        return torch.zeros_like(gradient)
    return (rest * (before / after)).to(gradient.dtype)
