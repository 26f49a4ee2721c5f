"""What releases cost: from what the ledger counted to ε, with dp-accounting.

There is no amplification by sampling here: a peer knows which rows are in every batch. So releases
of one row compose as Gaussian mechanisms on the same row do, and their (C/σ)² add up exactly
(Dong et al., arXiv 1905.02383, Cor. 3.3); the sum is one Gaussian mechanism, whose ε is known in
closed form (Balle and Wang, arXiv 1805.06530, Thm. 8).
"""

import math
from importlib.metadata import version
from typing import Literal

from dp_accounting import get_epsilon_gaussian, get_sigma_gaussian

Relation = Literal["replace_one", "zero_out"]
ACCOUNTANT = f"exact Gaussian mechanism, dp-accounting {version('dp-accounting')}"
# How far a row's clipped embedding can move, in units of C.
SENSITIVITY: dict[Relation, float] = {"replace_one": 2.0, "zero_out": 1.0}


def epsilon_of(square: float, relation: Relation, delta: float) -> float:
    """ε at ``delta`` of releases of one row whose (C/σ)² sum to ``square``."""
    if not square:
        return 0.0
    if math.isinf(square):
        return math.inf
    return float(get_epsilon_gaussian(1 / (SENSITIVITY[relation] * math.sqrt(square)), delta))


def multiplier_for(epsilon: float, relation: Relation, delta: float, releases: int = 1) -> float:
    """The smallest z = σ/C with which ``releases`` of a row stay within ``epsilon``."""
    single = float(get_sigma_gaussian(epsilon, delta))
    found = SENSITIVITY[relation] * math.sqrt(releases) * single
    while epsilon_of(releases / found**2, relation, delta) > epsilon:
        found *= 1 + 1e-9  # both are roots found to a tolerance
    return found


def at_most(epsilon: float) -> str:
    """ε as people read it, rounded up."""
    digits = 4 - math.ceil(math.log10(epsilon)) if epsilon > 0 else 0
    return f"{math.ceil(epsilon * 10**digits) / 10**digits:g}"
