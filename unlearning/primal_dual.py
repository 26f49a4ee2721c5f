"""FedORA's primal-dual iteration: dual ascent on the forgetting constraint, and the primal step.

Notation of FedORA (paper 004): Θ = all parameters, θ = the block of one party, θ₀ = the block
before unlearning (``anchor``), Ω = dual variable, the multiplier of the constraint,
γ = ``threshold``, S_u = mean forgetting score, g_u = gradient of S_u, L_r = loss on the remaining
rows, τ = ``primal`` and σ = ``dual`` step size, ρ = ``proximal``, δ = ``share`` of D_r per
iteration, B = ``batch``, R = primal sub-steps per iteration.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Dual:
    """Scalar dual Ω of the constraint S_u ≥ γ, the same number for all parties."""

    threshold: float  # γ
    multiplier: float = 0.0  # Ω
    maximum: float = math.inf  # Ω_max, Assumption 4

    def ascend(self, forgetting: float, step_size: float) -> "Dual":
        """Return the dual after one ascent step; ``forgetting`` is S_u and ``step_size`` is σ."""
        # FedORA Eq 20: Ω ← Π_{Ω≥0}(Ω + σ (γ − S_u)), and Ω ≤ Ω_max by Assumption 4.
        raised = self.multiplier + step_size * (self.threshold - forgetting)
        return replace(self, multiplier=min(self.maximum, max(0.0, raised)))


def extrapolated_score(forgetting: float, before: float | None) -> float:
    """Return S_u at Θ̄ = 2 Θᵏ − Θᵏ⁻¹ to first order.

    ``forgetting`` is S_u at Θᵏ, and ``before`` is S_u at Θᵏ⁻¹ or None in the first iteration. The
    paper's dual ascent uses S_u at Θᵏ, which is the Arrow–Hurwicz method; primal-dual hybrid
    gradient uses S_u at Θ̄. The extrapolation assumes that S_u is linear between the two points;
    the primal step makes the same assumption, because it uses only the gradient g_u.
    """
    return forgetting if before is None else 2.0 * forgetting - before


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralDual:
    """The dual as defined in FedORA's paper: one multiplier per parameter of one party's block.

    The iteration with ``LiteralDual`` is a different algorithm from the iteration with ``Dual``.
    Each multiplier grows by σγ per iteration even where the gradient is zero, so a maximum of the
    block's ‖Ω‖₂ is required.
    """

    threshold: float  # γ
    maximum: float  # Ω_max
    multipliers: tuple[Tensor, ...]  # Ω_i, shaped like the block

    def ascend(self, gradients: Sequence[Tensor], step_size: float) -> "LiteralDual":
        """Return the dual after one ascent step.

        ``gradients`` are the block's part of g_u, tensors of any shape that match the multipliers,
        and ``step_size`` is σ.
        """
        # FedORA Eq 25: Ω_i ← Ω_i + σ (γ − ∂L_u/∂θ_i), projected as in Alg. 1 line 31.
        pairs = zip(self.multipliers, gradients, strict=True)
        raised = [(o + step_size * (self.threshold - g)).clamp(min=0.0) for o, g in pairs]
        shrink = self.maximum / max(self.maximum, _norm(raised))
        return replace(self, multipliers=tuple(multiplier * shrink for multiplier in raised))


def zero_literal_dual(block: Sequence[Tensor], threshold: float, maximum: float) -> LiteralDual:
    """Return the literal dual of a block before the first iteration: all multipliers are zero.

    ``block`` holds tensors of any shape; ``threshold`` is γ and ``maximum`` is Ω_max.
    """
    return LiteralDual(
        threshold=threshold,
        maximum=maximum,
        multipliers=tuple(torch.zeros_like(theta) for theta in block),
    )


def retain_steps(share: float, retained: int, batch: int) -> int:
    """Return R, the number of primal sub-steps per iteration, at least 1.

    ``share`` is δ and ``retained`` is the number of rows of D_r. With δ = 0 there is one sub-step,
    which omits the term of L_r.
    """
    # FedORA Alg. 2 line 2: R = ⌈δ |D_r| / B⌉, but at least 1 (δ = 0 would mean no update at all).
    return max(1, math.ceil(share * retained / batch))


@dataclass(frozen=True, slots=True)
class UnlearningTerms:
    """Terms of one party's primal step that stay fixed during one iteration."""

    gradients: Sequence[Tensor]  # g_u of this block, stale over the R sub-steps
    dual: float | Sequence[Tensor]  # Ω: one number, or one tensor per parameter
    anchor: Sequence[Tensor]  # θ₀


@torch.no_grad()
def primal_direction(
    block: Sequence[Tensor],
    retain: Sequence[Tensor] | None,
    terms: UnlearningTerms,
    proximal: float,
) -> list[Tensor]:
    """Return the direction that the primal step subtracts from a block.

    ``block`` holds tensors of any shape; ``retain`` is ∇L_r on a batch, shaped like the block, or
    None if δ = 0. If all other terms have weight 0, the result is ``retain`` itself.
    """
    duals, directions = _per_parameter(terms.dual, len(block)), []
    for i, (theta, g_u, start) in enumerate(zip(block, terms.gradients, terms.anchor, strict=True)):
        # FedORA Eq 27/34: ∂L_r/∂θ − ∂L_u/∂θ ∘ Ω + ρ (θ − θ₀); a term of weight 0 is not computed.
        parts = [proximal * (theta - start)] if proximal else []
        dual = duals[i]
        parts += [-dual * g_u] if isinstance(dual, Tensor) or dual else []
        parts += [retain[i]] if retain is not None else []
        directions.append(reduce(torch.add, parts) if parts else torch.zeros_like(theta))
    return directions


@torch.no_grad()
def primal_step(
    block: Sequence[Tensor],
    retain: Sequence[Tensor] | None,
    terms: UnlearningTerms,
    *,
    primal: float,
    proximal: float,
) -> None:
    """Move a block in place by the primal step θ ← θ − τ d, with d from ``primal_direction``.

    ``block`` holds tensors of any shape; ``retain`` is ∇L_r on a batch, shaped like the block, or
    None if δ = 0.
    """
    for theta, direction in zip(
        block, primal_direction(block, retain, terms, proximal), strict=True
    ):
        theta.sub_(direction, alpha=primal)


@torch.no_grad()
def perturb(block: Sequence[Tensor], deviation: float, seed: int) -> None:
    """Add Gaussian noise of the standard deviation ``deviation`` to a block in place.

    ``block`` holds tensors of any shape. With steps of size τ and a deviation proportional to τ,
    this is a form of stochastic gradient Langevin dynamics (Welling and Teh, ICML 2011). Equal
    seeds give equal noise for blocks of equal shapes.
    """
    generator = torch.Generator().manual_seed(seed)
    for theta in block:
        noise = torch.randn(theta.shape, generator=generator, dtype=theta.dtype)
        theta.add_(noise.to(theta.device), alpha=deviation)


def _per_parameter(dual: float | Sequence[Tensor], count: int) -> Sequence[Tensor | float]:
    return [dual] * count if isinstance(dual, float | int) else dual


def _norm(tensors: Sequence[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))
