"""FedORA's constraint for language models: minimise the retain loss subject to enough forgetting.

Letters of FedORA (paper 004): θ = the trained weights or adapters, L_r = mean cross entropy on
retained sequences, S_j = score of forgotten answer j, S_u = mean_j S_j over D_u, γ = threshold,
Ω = dual, σ = step size of the dual. The problem and its Lagrangian (Eq. 9) are

    min_θ L_r(θ)   subject to   S_u(θ) ≥ γ
    L(θ, Ω) = L_r(θ) + Ω (γ − S_u(θ)),   Ω ≥ 0
    θ descends ∇L_r − Ω ∇S_u (Eq. 27 with ρ = 0: the proximal term would pull θ back to D_u)
    Ω ← Π_[0, Ω_max](Ω + σ (γ − S_u))   (Eq. 20)

Once S_u ≥ γ, the dual falls, and at Ω = 0 only L_r is left. So there is a level at which forgetting
stops, unlike in NPO. γ is measured on texts that no model saw: it is the mean of the same score
over held-out answers, under this model or a reference model. That the level was reached does not
show that the model is near Retrain.

In a federation all clients share one dual. Clients that hold rows of D_u descend L at the dual that
the server sent; the other clients descend L_r. Averaging dilutes the updates of a few such clients,
and the dual grows until it makes up for this. An answer that the model knows by heart hardly
changes at first (its gradient is proportional to 1 − p), so the dual grows large and the answer
then overshoots γ, as far as the score's ceiling and the optimiser's momentum allow. Ω_max limits
this. Nothing pulls a score back down to γ: forgetting more than γ satisfies the constraint. If
over-forgetting must be limited too, a second dual with the scores −NLL_j/|y_j| and the threshold −γ̄
holds the mean NLL of the answers below γ̄ > γ.

The score is the preference score, a bounded function of an answer's likelihood: with an unbounded
score, destroying a few answers could satisfy the constraint for all. Letters: M = ``ceiling``,
β = ``sharpness``, V = vocabulary.
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
    """Shape of the preference score.

    Attributes:
        ceiling: M, in nats per token; no answer scores higher. A high quantile over answers that
            the model never saw is a good value, log V (a uniform guess) the highest sensible one.
        sharpness: β; the score bends within about 1/β nats of the ceiling.
    """

    ceiling: float
    sharpness: float = 4.5

    def __post_init__(self) -> None:
        """Check that the score can rise.

        Raises:
            ValueError: ``ceiling`` or ``sharpness`` is not positive and finite.
        """
        if not (0 < self.ceiling < math.inf and 0 < self.sharpness < math.inf):
            raise ValueError(f"{self}: ceiling and sharpness must be positive and finite")


def preference_scores(forget: SequenceNll, shape: PreferenceScore) -> Tensor:
    """Return S_j, the mean nats per token of each answer, saturating at the ceiling, ``[batch]``.

    Far below the ceiling S_j is NLL/|y|. Near the ceiling its slope falls as σ(β (M − NLL/|y|)), so
    an answer is not pushed beyond it. The mean score is M − ½ simnpo_loss(β, δ = M).
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
            f"threshold {threshold} can never be reached: it must be below {highest}, the highest "
            "possible score; was it measured with the same score on texts that no model saw?"
        )
    if not 0.0 <= multiplier <= maximum:
        raise ValueError(f"the initial dual must be in [0, {maximum}] (got {multiplier})")
    return Dual(threshold=threshold, multiplier=multiplier, maximum=maximum)


def lagrangian(retain: Tensor, scores: Tensor, dual: Dual) -> Tensor:
    """Return the Lagrangian, which θ descends, a scalar.

    ``retain`` is L_r, a scalar; ``scores`` are S_j, ``[batch]``. Ω is a number here and gets no
    gradient.
    """
    # FedORA (paper 004) Eq 9 with ρ = 0: L_r + Ω (γ − S_u).
    return retain + dual.multiplier * (dual.threshold - scores.mean())


def dual_ascent(dual: Dual, seen: Iterable[ScoreSum], step_size: float) -> Dual:
    """Return the dual after one ascent step on the scores ``seen`` in a round.

    The mean is taken over all answers, not over clients. If no answer was scored, as in a round
    without a client of D_u, the dual stays as it is.

    Raises:
        ValueError: the mean score is not finite, which would set the dual to 0 unnoticed.
    """
    together = sum(seen, ScoreSum())
    if not together.rows:
        return dual
    mean = together.total / together.rows
    if not math.isfinite(mean):
        raise ValueError(
            f"the mean score of {together.rows} answers is {mean}: the model is no longer finite; "
            "go back to the last finite model"
        )
    return dual.ascend(mean, step_size)
