"""The certificate of a strongly convex model: how far it is from the retrained optimum, at most.

F is λ-strongly convex and Θ* its minimum on the rows that stay, so ‖Θ - Θ*‖ ≤ ‖∇F(Θ)‖ / λ wherever
Θ came from. Noise of a scale that was fixed before the distance was known makes it (ε, δ).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SLACK = 1e-12  # for the rounding of a gradient in float64
_HALVINGS = 200
_BITS = 53  # of a float64's mantissa


def distance_bound(gradient_norm: float, weight: float) -> float:
    """Return B, which ‖Θ - Θ*‖ does not exceed; ``weight`` is λ."""
    # Strong convexity: λ ‖Θ - Θ*‖ ≤ ‖∇F(Θ) - ∇F(Θ*)‖ = ‖∇F(Θ)‖.
    return (gradient_norm + SLACK) / weight


def privacy_loss(epsilon: float, scale: float) -> float:
    """Return the δ of Gaussian noise of ``scale`` times the sensitivity at ``epsilon``."""
    # Balle & Wang 2018 (arXiv 1805.06530), Theorem 8, with Δ = 1 and σ = scale:
    # δ = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ).
    half, shift = 1 / (2 * scale), epsilon * scale
    return _normal(half - shift) - math.exp(epsilon) * _normal(-half - shift)


def noise_scale(epsilon: float, delta: float) -> float:
    """Return σ over the sensitivity: the smallest for (ε, δ), by bisection.

    Raises:
        ValueError: ``epsilon`` is not positive, or ``delta`` not between 0 and 1.
    """
    if epsilon <= 0 or not 0 < delta < 1:
        raise ValueError(f"no noise gives epsilon {epsilon}, delta {delta}; 0 < epsilon, 0 < δ < 1")
    low, high = 0.0, 1.0
    while privacy_loss(epsilon, high) > delta:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if privacy_loss(epsilon, middle) > delta else (low, middle)
    return high


@torch.no_grad()
def blur(block: Sequence[Tensor], sigma: float, entropy: Callable[[int], bytes]) -> None:
    """Add N(0, σ²) to every parameter in place; ``entropy`` gives secret random bytes.

    It is floating-point noise: the lowest bits of a released number are not covered by (ε, δ).
    """
    for each in block:
        words = torch.frombuffer(bytearray(entropy(8 * each.numel())), dtype=torch.int64)
        # The upper 53 bits, moved to the middles of equal parts of (0, 1).
        shares = ((words >> (64 - _BITS)).double() + 2.0 ** (_BITS - 1) + 0.5) / 2.0**_BITS
        each.add_((sigma * torch.special.ndtri(shares)).to(each.dtype).reshape(each.shape))


def _normal(value: float) -> float:
    """Φ."""
    return math.erfc(-value / math.sqrt(2)) / 2
