"""Privacy accounting: from the releases in the ledger to ε, with dp-accounting.

Sampling does not amplify privacy in this protocol, because a peer knows which rows are in each
batch. Therefore releases of one row compose like Gaussian mechanisms on that row, and the values
(C/σ)² of the releases add up exactly (Dong et al., arXiv 1905.02383, Cor. 3.3). The composition is
equivalent to one Gaussian mechanism, whose ε has a closed form (Balle and Wang, arXiv 1805.06530,
Thm. 8).
"""

import math
from importlib.metadata import version
from typing import Literal

from dp_accounting import get_epsilon_gaussian

from parties.report.quantities import format_epsilon

Relation = Literal["replace_one", "zero_out"]
ACCOUNTANT = f"exact Gaussian mechanism, dp-accounting {version('dp-accounting')}"
# Largest change of a row's clipped embedding, in units of C.
SENSITIVITY: dict[Relation, float] = {"replace_one": 2.0, "zero_out": 1.0}


def epsilon_of(square: float, relation: Relation, delta: float) -> float:
    """ε at ``delta`` for all releases of one row; ``square`` is the sum of their (C/σ)²."""
    if not square:
        return 0.0
    if math.isinf(square):
        return math.inf
    return float(get_epsilon_gaussian(1 / (SENSITIVITY[relation] * math.sqrt(square)), delta))


def spent_words(epsilon: float, budget: float | None) -> str:
    """The ε that was spent, and the budget, in words; ``budget``: None without a budget."""
    spent = "∞" if math.isinf(epsilon) else format_epsilon(epsilon)
    agreed = "no budget is agreed" if budget is None else f"the budget is {budget:g}"
    return f"ε = {spent}; {agreed}"
