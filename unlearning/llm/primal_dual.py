"""FedORA's constraint for language models: keep what stays, subject to having forgotten enough.

Letters of FedORA (paper 004): θ = the trained weights or adapters, L_r = mean cross entropy on
retained sequences, S_j = score of forgotten answer j, S_u = mean_j S_j over D_u, γ = threshold,
Ω = price, σ = dual step size. The problem and its Lagrangian are

    min_θ L_r(θ)   subject to   S_u(θ) ≥ γ
    L(θ, Ω) = L_r(θ) + Ω (γ − S_u(θ)),   Ω ≥ 0
    θ descends ∇L_r − Ω ∇S_u (Eq. 27 with ρ = 0, as the proximal term pulls to what remembers)
    Ω ← Π_[0, Ω_max](Ω + σ (γ − S_u))   (Eq. 20)

Once S_u ≥ γ the price falls, and at 0 only L_r is left: there is a level at which forgetting stops,
which NPO and its like do not have. γ comes from texts never seen: the same score's mean over
held-out answers, under this model or a reference that saw neither.

In a federation one price is for all. Clients that hold rows of D_u descend L at the price they were
told, the others L_r. Averaging dilutes the pull of few such clients; the price makes up for it. An
answer known by heart hardly moves at first (its slope is in 1 − p), so the price winds up and the
answer then overshoots γ, as far as the score's ceiling and the optimiser's momentum let it. Ω_max
bounds that, and nothing above pulls back: more than enough is legal. Where too much shows as well,
a second dual holds the answers' mean NLL below γ̄ > γ, as S̄_j = −NLL_j/|y_j| ≥ −γ̄:

    lagrangian(lagrangian(retain, scores, dual), -forget.mean, upper)   with upper = init(-γ̄, 0.0)
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from unlearning.llm.promise import measured
from unlearning.primal_dual import Dual

PROMISE: Final = measured(
    "A level of forgetting is agreed and its shortfall reported; that it was met says nothing of "
    "nearness to Retrain."
)


@dataclass(frozen=True, slots=True)
class ScoreSum:
    """The scores of some forgotten answers, so far; sums of clients add up to those of all."""

    total: float = 0.0
    rows: int = 0

    def __add__(self, other: "ScoreSum") -> "ScoreSum":
        """Return both together."""
        return ScoreSum(self.total + other.total, self.rows + other.rows)


def summed(scores: Tensor) -> ScoreSum:
    """Return the sum of ``[batch]`` scores S_j; no gradient is kept."""
    return ScoreSum(float(scores.detach().double().sum()), len(scores))


def init(threshold: float, highest: float, price: float = 0.0, cap: float = math.inf) -> Dual:
    """Return the dual of a threshold γ that can be met; ``highest`` is what no score exceeds.

    Raises:
        ValueError: γ is not below ``highest``, or the price is not in [0, cap].
    """
    if not -math.inf < threshold < highest:
        raise ValueError(
            f"threshold {threshold} can never be met, legal is anything below {highest}, the "
            "score's highest; was it taken with the same score on texts never seen?"
        )
    if not 0.0 <= price <= cap:
        raise ValueError(f"price {price} is not in [0, {cap}]")
    return Dual(threshold=threshold, price=price, cap=cap)


def lagrangian(retain: Tensor, scores: Tensor, dual: Dual) -> Tensor:
    """Return L_r + Ω (γ − mean S_j), a scalar to descend in θ; ``scores`` is ``[batch]``.

    The price is a number here: no gradient goes to it.
    """
    return retain + dual.price * (dual.threshold - scores.mean())


def ascend(dual: Dual, seen: Iterable[ScoreSum], step_size: float) -> Dual:
    """Return the next dual, from all that was seen since the last: of a step, or of a round.

    The mean is over answers, whoever holds them. Where none was seen, as in a round without any
    client of D_u, the price stays.

    Raises:
        ValueError: a score is not finite, which would set the price to 0 unnoticed.
    """
    together = sum(seen, ScoreSum())
    if not together.rows:
        return dual
    mean = together.total / together.rows
    if not math.isfinite(mean):
        raise ValueError(
            f"the mean score of {together.rows} answers is {mean}; the model is no longer finite, "
            "so go back to the last sound one"
        )
    return dual.ascend(mean, step_size)
