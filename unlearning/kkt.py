"""The KKT report of FedORA: how nearly its last model solves the constrained problem.

It tells whether min L_r + ρ/2 ‖Θ - Θ₀‖² subject to S_u ≥ γ was solved to first order. That is no
optimality, since the problem is not convex, and no nearness to Retrain, since γ is chosen. With the
literal dual of one price for each parameter there is no such problem, and no report.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """Full-batch squared norms, summed over all parties' blocks."""

    retain: float  # ‖∇L_r‖²
    lagrangian: float  # ‖∇L_r + ρ (Θ - Θ₀) - Ω ∇S_u‖²


@dataclass(frozen=True, slots=True, kw_only=True)
class Kkt:
    """The four conditions, each by what it is missed by."""

    stationarity: float  # r_s
    primal: float  # r_p
    dual: float  # Ω, at least 0
    complementarity: float  # r_c
    converged: bool


def kkt(
    gradients: Gradients, *, price: float, threshold: float, forgetting: float, tolerance: float
) -> Kkt:
    """Return the report; ``price`` is Ω, ``threshold`` γ and ``forgetting`` S_u on all of D_u.

    Raises:
        ValueError: the price is below zero, which no dual of FedORA ever is.
    """
    if price < 0:
        raise ValueError(f"the price is {price}; a dual of an inequality is at least 0")
    # r_s = ‖∇L_r + ρ(Θ - Θ₀) - Ω ∇S_u‖ / (1 + ‖∇L_r‖)
    stationarity = math.sqrt(gradients.lagrangian) / (1 + math.sqrt(gradients.retain))
    # r_p = max(0, γ - S_u), r_c = Ω |γ - S_u|
    primal = max(0.0, threshold - forgetting)
    complementarity = price * abs(threshold - forgetting)
    worst = max(stationarity, primal, complementarity)
    return Kkt(
        stationarity=stationarity,
        primal=primal,
        dual=price,
        complementarity=complementarity,
        converged=worst <= tolerance,
    )
