"""FedORA's constraint for language models: minimise the retain loss subject to enough forgetting.

Notation of FedORA (paper 004): θ = the trained weights or adapters, L_r = mean cross entropy on
retained sequences, S_j = score of forgotten answer j, S_u = mean_j S_j over D_u, γ = threshold,
Ω = dual, σ = step size of the dual. The next lines show the problem, the Lagrangian (Eq. 9) and the
steps of θ and Ω.

    min_θ L_r(θ)   subject to   S_u(θ) ≥ γ
    L(θ, Ω) = L_r(θ) + Ω (γ − S_u(θ)),   Ω ≥ 0
    θ descends ∇L_r − Ω ∇S_u   (Eq. 27 with ρ = 0)
    Ω ← Π_[0, Ω_max](Ω + σ (γ − S_u))   (Eq. 20)

The proximal term is left out (ρ = 0), because it would pull θ back to the weights that were trained
on D_u. Once S_u ≥ γ, the dual falls, and at Ω = 0 only L_r is minimised. Thus forgetting stops at
S_u = γ, whereas NPO never stops at a fixed value. The threshold γ is the mean of the same score
over held-out answers, on which no model was trained. The scores of the held-out answers are
computed with this model or with a reference model. Reaching γ does not show that the model is close
to Retrain.

In a federation all clients share one dual. Clients with rows of D_u minimise the Lagrangian L with
the dual that the server sent; the other clients minimise L_r. If only a few clients have rows of
D_u, averaging dilutes their updates, and the dual grows until it compensates for the dilution. The
score of a memorised answer hardly changes at first, because the gradient is proportional to 1 − p.
Therefore the dual grows large before the score rises, and the score then overshoots γ. The
optimiser's momentum increases the overshoot; the maximum of the score and the bound Ω_max limit it.
No term of the loss lowers a score back to γ, because a score above γ satisfies the constraint. A
second dual with the scores −NLL_j/|y_j| and the threshold −γ̄, where γ̄ > γ, can limit
over-forgetting: it keeps the mean NLL per token of the answers below γ̄.

The score is the preference score, a bounded function of an answer's likelihood. With an unbounded
score, a few extremely unlikely answers could raise the mean score to γ while the model still knows
all other answers. Notation:
M = ``ceiling``, β = ``sharpness``, V = vocabulary.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import logsigmoid

from unlearning.llm.likelihood import SequenceNll
from unlearning.primal_dual import Dual


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferenceScore:
    """Parameters that fix the shape of the preference score as a function of the NLL."""

    # M, the upper bound of a score, in nats per token. A good value is a high quantile over answers
    # on which the model was not trained. The highest sensible value is log V, the NLL per token of
    # a uniform guess.
    ceiling: float
    sharpness: float = 4.5  # β; the score flattens within about 1/β nats of the ceiling

    def __post_init__(self) -> None:
        """Check that the score can rise.

        Raises:
            ValueError: ``ceiling`` or ``sharpness`` is not positive and finite.
        """
        if not (0 < self.ceiling < math.inf and 0 < self.sharpness < math.inf):
            raise ValueError(f"{self}: ceiling and sharpness must be positive and finite")


def preference_scores(forget: SequenceNll, shape: PreferenceScore) -> Tensor:
    """Return the score S_j of each answer: its mean NLL per token, kept below M, ``[batch]``.

    Far below the ceiling S_j is approximately NLL/|y|. Close to the ceiling the slope of S_j falls
    as σ(β (M − NLL/|y|)), so that answers are not pushed beyond the ceiling. The mean score is
    M − ½ simnpo_loss(β, δ = M).
    """
    # SimNPO (arXiv 2410.07163), its loss at δ = M, scaled and shifted:
    # S_j = M + log σ(β (NLL/|y| − M)) / β.
    excess = forget.mean - shape.ceiling
    return shape.ceiling + logsigmoid(shape.sharpness * excess) / shape.sharpness


@dataclass(frozen=True, slots=True)
class ScoreSum:
    """Sum of the scores of some forgotten answers; the sums of clients can be added."""

    total: float = 0.0
    rows: int = 0

    def __add__(self, other: "ScoreSum") -> "ScoreSum":
        """Return the sum over the answers of both."""
        return ScoreSum(self.total + other.total, self.rows + other.rows)


def initial_dual(
    threshold: float, highest: float, multiplier: float = 0.0, maximum: float = math.inf
) -> Dual:
    """Return the dual before the first round.

    ``threshold`` is γ, ``highest`` the upper bound of the score, ``multiplier`` the initial Ω and
    ``maximum`` Ω_max.

    Raises:
        ValueError: γ is not below ``highest``, or ``multiplier`` is not in [0, ``maximum``].
    """
    if not -math.inf < threshold < highest:
        raise ValueError(
            f"the threshold must be finite and below {highest}, the highest possible score (got "
            f"{threshold}); compute the threshold as the mean score of texts on which no model was "
            "trained"
        )
    if not 0.0 <= multiplier <= maximum:
        raise ValueError(f"the initial dual variable must be in [0, {maximum}] (got {multiplier})")
    return Dual(threshold=threshold, multiplier=multiplier, maximum=maximum)


def lagrangian(retain: Tensor, scores: Tensor, dual: Dual) -> Tensor:
    """Return the Lagrangian, which training minimises over θ, a scalar.

    ``retain`` is L_r, a scalar; ``scores`` are S_j, ``[batch]``. Ω is a constant and gets no
    gradient.
    """
    # FedORA (paper 004) Eq 9 with ρ = 0: L_r + Ω (γ − S_u).
    return retain + dual.multiplier * (dual.threshold - scores.mean())


def dual_ascent(dual: Dual, seen: Iterable[ScoreSum], step_size: float) -> Dual:
    """Return the dual after one ascent step.

    ``seen`` are the score sums that the clients computed in this round. The mean is taken over all
    answers, not over clients. If no answer was scored, because no client of the round has rows of
    D_u, the dual does not change.

    Raises:
        ValueError: the mean score is not finite.
    """
    together = sum(seen, ScoreSum())
    if not together.rows:
        return dual
    mean = together.total / together.rows
    if not math.isfinite(mean):
        raise ValueError(
            f"the mean score of {together.rows} answers is {mean}, so the model has diverged; "
            "restore the last model with finite weights"
        )
    return dual.ascend(mean, step_size)
