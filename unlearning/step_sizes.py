"""FedORA's adaptive step sizes, kept by the active party for all blocks together.

Letters of FedORA (paper 004): τ = ``primal``, σ = ``dual``, ΔΘ = change of all parameters in one
iteration, ξ = the adjustment with thresholds β (``calm``) < α (``restless``) and factors κ_i
(``grow``) > 1 > κ_d (``shrink``), Ĝ = the largest ‖g_u‖ seen.
"""

import math
from dataclasses import dataclass, replace

TINY = 1e-12  # a ΔΘ below this is no change, and no ratio is formed with it


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRule:
    """How step sizes may move; the paper gives none of these numbers."""

    calm: float = 0.8  # β
    restless: float = 1.5  # α
    grow: float = 1.1  # κ_i
    shrink: float = 0.5  # κ_d
    primal_range: tuple[float, float] = (1e-4, 1.0)  # [τ_min, τ_max]
    dual_range: tuple[float, float] = (0.0, math.inf)  # [σ_min, σ_max]
    safety: float = 0.9  # σ τ Ĝ² stays below this; PDHG needs less than 1

    def __post_init__(self) -> None:
        """Refuse a rule that could not adapt.

        Raises:
            ValueError: if not β < α, κ_d ≤ 1 ≤ κ_i and 0 < safety < 1.
        """
        ordered = self.calm < self.restless and self.shrink <= 1.0 <= self.grow
        if not ordered or not 0.0 < self.safety < 1.0:
            raise ValueError(
                f"step rule {self} must have calm < restless, shrink <= 1 <= grow and "
                "0 < safety < 1; grow = shrink = 1 holds the steps still"
            )

    def adjustment(self, ratio: float) -> float:
        """Return ξ of the ratio ΔΘᵏ⁺¹/ΔΘᵏ."""
        # FedORA Eq 32: ξ(x) = κ_i if x < β, κ_d if x > α, 1 otherwise.
        if ratio < self.calm:
            return self.grow
        return self.shrink if ratio > self.restless else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSizes:
    """The step sizes of one iteration and what the next ones depend on."""

    primal: float  # τ
    dual: float  # σ
    rule: StepRule = StepRule()
    change: float | None = None  # ΔΘ of the last iteration; None before the first
    steepest: float = 0.0  # Ĝ², over all blocks
    clipped: bool = False  # whether the last move of σ met its bound

    @property
    def dual_bound(self) -> float:
        """Return the largest σ that keeps σ τ Ĝ² below the safety; infinite before any gradient."""
        # PDHG needs στ‖K‖² < 1: σ ≤ 0.9 / (τ Ĝ²), since ‖g_u‖ bounds the linearised coupling K.
        return self.rule.safety / (self.primal * self.steepest) if self.steepest else math.inf

    def meet(self, squared_gradient: float) -> "StepSizes":
        """Return the sizes after seeing ‖g_u‖², summed over the parties' blocks."""
        return replace(self, steepest=max(self.steepest, squared_gradient))._bounded()

    def adapt(self, squared_change: float) -> "StepSizes":
        """Return the next iteration's sizes; ``squared_change`` is summed over the blocks."""
        # FedORA Eq 29: ΔΘᵏ = ‖Θᵏ − Θᵏ⁻¹‖₂.
        change = math.sqrt(squared_change)
        xi = self._adjustment(change)
        # FedORA Eq 30, 31 and 33: τ ← min(τ ξ, τ_max), σ ← min(σ ξ, σ_max); clamped below too.
        primal = _clamp(self.primal * xi, self.rule.primal_range)
        dual = _clamp(self.dual * xi, self.rule.dual_range)
        return replace(self, primal=primal, dual=dual, change=change)._bounded()

    def _adjustment(self, change: float) -> float:
        """Return ξ, which is 1 while there is no earlier change to compare with."""
        if self.change is None or self.change < TINY:
            return 1.0
        return self.rule.adjustment(change / self.change)

    def _bounded(self) -> "StepSizes":
        return replace(
            self, dual=min(self.dual, self.dual_bound), clipped=self.dual > self.dual_bound
        )


def _clamp(value: float, span: tuple[float, float]) -> float:
    low, high = span
    return min(max(value, low), high)
