"""FedORA's adaptive step sizes, which the active party computes for the blocks of all parties.

Notation of FedORA (paper 004): τ = ``primal``, σ = ``dual``, ΔΘ = change of all parameters in one
iteration, ξ = the adjustment (factor) of the step sizes, with thresholds β < α and factors κ_i
(``grow``) > 1 > κ_d (``shrink``), Ĝ = the largest ‖g_u‖ so far.
"""

import math
from dataclasses import dataclass, replace

TINY = 1e-12  # a smaller ΔΘ counts as no change, and no ratio is formed with it


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRule:
    """Parameters of the step-size adaptation; FedORA's paper gives no values for them."""

    beta: float = 0.8  # β: below this ratio of changes the steps grow
    alpha: float = 1.5  # α: above this ratio of changes the steps shrink
    grow: float = 1.1  # κ_i
    shrink: float = 0.5  # κ_d
    primal_range: tuple[float, float] = (1e-4, 1.0)  # [τ_min, τ_max]
    dual_range: tuple[float, float] = (0.0, math.inf)  # [σ_min, σ_max]
    safety: float = 0.9  # σ τ Ĝ² stays below this; PDHG needs less than 1

    def __post_init__(self) -> None:
        """Check the order of the thresholds and factors.

        Raises:
            ValueError: not β < α, not κ_d ≤ 1 ≤ κ_i, or not 0 < safety < 1.
        """
        ordered = self.beta < self.alpha and self.shrink <= 1.0 <= self.grow
        if not ordered or not 0.0 < self.safety < 1.0:
            raise ValueError(
                f"{self} breaks at least one of three rules: beta < alpha, shrink <= 1 <= grow and "
                "0 < safety < 1; for constant step sizes set grow = shrink = 1"
            )

    def adjustment(self, ratio: float) -> float:
        """Return ξ, the adjustment of the step sizes, for the ``ratio`` ΔΘᵏ⁺¹/ΔΘᵏ."""
        # FedORA Eq 32: ξ(x) = κ_i if x < β, κ_d if x > α, 1 otherwise.
        if ratio < self.beta:
            return self.grow
        return self.shrink if ratio > self.alpha else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSizes:
    """Step sizes of one iteration, and the state that determines the next step sizes."""

    primal: float  # τ
    dual: float  # σ
    rule: StepRule = StepRule()
    change: float | None = None  # ΔΘ of the last iteration; None before the first
    steepest: float = 0.0  # Ĝ², over all blocks
    clipped: bool = False  # whether the last change of σ was limited by its bound

    @property
    def dual_bound(self) -> float:
        """The largest σ with σ τ Ĝ² at most ``safety``; infinite before the first gradient."""
        # PDHG needs στ‖K‖² < 1: σ ≤ 0.9 / (τ Ĝ²), since ‖g_u‖ bounds the linearised coupling K.
        return self.rule.safety / (self.primal * self.steepest) if self.steepest else math.inf

    def with_gradient(self, squared_gradient: float) -> "StepSizes":
        """Return the step sizes with Ĝ updated; ``squared_gradient`` is ‖g_u‖² over all blocks."""
        return replace(self, steepest=max(self.steepest, squared_gradient))._bounded()

    def adapt(self, squared_change: float) -> "StepSizes":
        """Return the next iteration's step sizes; ``squared_change`` is ΔΘ² over all blocks."""
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
