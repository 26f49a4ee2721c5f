"""FedORA's primal-dual iteration: the price of not having forgotten, and the step that pays it.

Letters of FedORA (paper 004): Θ = all parameters, θ = one party's block, θ₀ = where it started
(``anchor``), Ω = dual variable (``price``), γ = ``threshold``, S_u = mean forgetting score, g_u =
its gradient, L_r = loss on retained rows, τ = ``primal`` and σ = ``dual`` step size, ρ =
``proximal``, δ = ``share`` of D_r per iteration, B = ``batch``, R = retain sub-steps.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Dual:
    """The price Ω of falling short of the threshold γ: one number for all parties."""

    threshold: float  # γ
    price: float = 0.0  # Ω
    cap: float = math.inf  # Ω_max, Assumption 4

    def ascend(self, forgetting: float, step_size: float) -> "Dual":
        """Return the next dual; ``forgetting`` is S_u and ``step_size`` is σ."""
        # FedORA Eq 20: Ω ← Π_{Ω≥0}(Ω + σ (γ − S_u)), and Ω ≤ Ω_max by Assumption 4.
        raised = self.price + step_size * (self.threshold - forgetting)
        return replace(self, price=min(self.cap, max(0.0, raised)))


def extrapolated(forgetting: float, before: float | None) -> float:
    """Return S_u at Θ̄ = 2 Θᵏ − Θᵏ⁻¹ to first order; ``before`` is S_u at Θᵏ⁻¹, None at first.

    The paper's dual ascends at Θᵏ, which is the Arrow–Hurwicz method; primal-dual hybrid gradient
    ascends at Θ̄. Along the step S_u is taken as linear, as the primal step does with g_u.
    """
    return forgetting if before is None else 2.0 * forgetting - before


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralDual:
    """The paper's printed dual: one price per parameter of one party's block.

    It is another algorithm than ``Dual`` and does not relax: where the gradient is zero every
    price still grows by σγ per iteration, so the cap (on the block's ‖Ω‖₂) is not optional.
    """

    threshold: float  # γ
    cap: float  # Ω_max
    prices: tuple[Tensor, ...]  # Ω_i, shaped like the block

    def ascend(self, gradients: Sequence[Tensor], step_size: float) -> "LiteralDual":
        """Return the next dual; ``gradients`` is the block's g_u and ``step_size`` is σ."""
        # FedORA Eq 25: Ω_i ← Ω_i + σ (γ − ∂L_u/∂θ_i), projected as in Alg. 1 line 31.
        pairs = zip(self.prices, gradients, strict=True)
        raised = [(o + step_size * (self.threshold - g)).clamp(min=0.0) for o, g in pairs]
        shrink = self.cap / max(self.cap, _norm(raised))
        return replace(self, prices=tuple(price * shrink for price in raised))


def free_of_charge(block: Sequence[Tensor], threshold: float, cap: float) -> LiteralDual:
    """Return the literal dual of a party's block at its start, all prices zero."""
    return LiteralDual(
        threshold=threshold, cap=cap, prices=tuple(torch.zeros_like(theta) for theta in block)
    )


def retain_steps(share: float, retained: int, batch: int) -> int:
    """Return R, the sub-steps per iteration; with δ = 0 there is one, without the L_r term."""
    # FedORA Alg. 2 line 2: R = ⌈δ |D_r| / B⌉, but at least 1 (δ = 0 would mean no update at all).
    return max(1, math.ceil(share * retained / batch))


@dataclass(frozen=True, slots=True)
class Pull:
    """What pulls one party's block besides the retained rows, fixed during one iteration."""

    gradients: Sequence[Tensor]  # g_u of this block, stale over the R sub-steps
    price: float | Sequence[Tensor]  # Ω: one number, or one tensor per parameter
    anchor: Sequence[Tensor]  # θ₀


@torch.no_grad()
def primal_direction(
    block: Sequence[Tensor], retain: Sequence[Tensor] | None, pull: Pull, proximal: float
) -> list[Tensor]:
    """Return what a block descends along; ``retain`` is ∇L_r on a batch, None when δ = 0.

    Where nothing else pulls, it is ``retain`` itself.
    """
    prices, found = _per_parameter(pull.price, len(block)), []
    for i, (theta, g_u, start) in enumerate(zip(block, pull.gradients, pull.anchor, strict=True)):
        # FedORA Eq 27/34: ∂L_r/∂θ − ∂L_u/∂θ ∘ Ω + ρ (θ − θ₀); a term of weight 0 costs nothing.
        terms = [proximal * (theta - start)] if proximal else []
        price = prices[i]
        terms += [-price * g_u] if isinstance(price, Tensor) or price else []
        terms += [retain[i]] if retain is not None else []
        found.append(reduce(torch.add, terms) if terms else torch.zeros_like(theta))
    return found


@torch.no_grad()
def primal_step(
    block: Sequence[Tensor],
    retain: Sequence[Tensor] | None,
    pull: Pull,
    *,
    primal: float,
    proximal: float,
) -> None:
    """Move one party's ``block`` in place, θ ← θ − τ d, along ``primal_direction``."""
    for theta, direction in zip(
        block, primal_direction(block, retain, pull, proximal), strict=True
    ):
        theta.sub_(direction, alpha=primal)


def _per_parameter(price: float | Sequence[Tensor], count: int) -> Sequence[Tensor | float]:
    return [price] * count if isinstance(price, float | int) else price


def _norm(tensors: Sequence[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))
