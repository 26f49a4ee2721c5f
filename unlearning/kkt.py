"""KKT report of FedORA: how well the final model solves the constrained problem.

The report measures whether the problem of minimising L_r + ρ/2 ‖Θ − Θ₀‖² subject to S_u ≥ γ was
solved to first order. The report does not show optimality, because the problem is not convex. A
model with small residuals can be far from Retrain, because the mean forgetting score of Retrain may
differ from the threshold γ. ``LiteralDual``, with one multiplier per
parameter, does not solve this problem, so there is no report for it.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KktGradients:
    """Squared norms of full-batch gradients, summed over the blocks of all parties."""

    retain: float  # ‖∇L_r‖²
    lagrangian: float  # ‖∇L_r + ρ (Θ - Θ₀) - Ω ∇S_u‖²


@dataclass(frozen=True, slots=True, kw_only=True)
class KktReport:
    """The dual Ω and the residuals of the KKT conditions; a condition with residual 0 is met."""

    stationarity: float  # r_s
    primal: float  # r_p
    dual: float  # Ω, at least 0
    complementarity: float  # r_c
    converged: bool


def kkt_residuals(
    gradients: KktGradients, *, dual: float, threshold: float, forgetting: float, tolerance: float
) -> KktReport:
    """Return the KKT report of the final model.

    ``dual`` is Ω, ``threshold`` is γ and ``forgetting`` is S_u on all of D_u. The report is marked
    as converged if stationarity, primal and complementarity residual are at most ``tolerance``.

    Raises:
        ValueError: ``dual`` is negative.
    """
    if dual < 0:
        raise ValueError(
            f"the dual variable of the forgetting constraint must be at least 0 (got {dual})"
        )
    # r_s = ‖∇L_r + ρ(Θ - Θ₀) - Ω ∇S_u‖ / (1 + ‖∇L_r‖)
    stationarity = math.sqrt(gradients.lagrangian) / (1 + math.sqrt(gradients.retain))
    # r_p = max(0, γ - S_u), r_c = Ω |γ - S_u|
    primal = max(0.0, threshold - forgetting)
    complementarity = dual * abs(threshold - forgetting)
    worst = max(stationarity, primal, complementarity)
    return KktReport(
        stationarity=stationarity,
        primal=primal,
        dual=dual,
        complementarity=complementarity,
        converged=worst <= tolerance,
    )
