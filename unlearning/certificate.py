"""Certificate of a strongly convex model: upper bound of the distance to the retrained optimum.

F is the λ-strongly convex training objective on the remaining rows, and Θ* is the minimiser of F.
Then ‖Θ − Θ*‖ ≤ ‖∇F(Θ)‖ / λ for every Θ. Gaussian noise turns this bound into an (ε, δ) guarantee if
the noise scale was fixed before the distance was known.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

SLACK = 1e-12  # for the rounding of a gradient in float64
_BISECTIONS = 200
_BITS = 53  # of the mantissa of a float64


def distance_bound(gradient_norm: float, weight: float) -> float:
    """Return an upper bound of ‖Θ − Θ*‖ from the norm of the gradient; ``weight`` is λ."""
    # Strong convexity: λ ‖Θ - Θ*‖ ≤ ‖∇F(Θ) - ∇F(Θ*)‖ = ‖∇F(Θ)‖.
    return (gradient_norm + SLACK) / weight


def gaussian_delta(epsilon: float, scale: float) -> float:
    """Return the δ of Gaussian noise at ``epsilon``; ``scale`` is σ divided by the sensitivity."""
    # Balle & Wang 2018 (arXiv 1805.06530), Theorem 8, with Δ = 1 and σ = scale:
    # δ = Φ(1/(2σ) - εσ) - e^ε Φ(-1/(2σ) - εσ).
    half, shift = 1 / (2 * scale), epsilon * scale
    return _normal_cdf(half - shift) - math.exp(epsilon) * _normal_cdf(-half - shift)


def gaussian_noise_scale(epsilon: float, delta: float) -> float:
    """Return the smallest σ, divided by the sensitivity, that guarantees (ε, δ).

    The search is a bisection on ``gaussian_delta``.

    Raises:
        ValueError: ``epsilon`` is not positive, or ``delta`` is not between 0 and 1.
    """
    if epsilon <= 0 or not 0 < delta < 1:
        raise ValueError(
            f"Gaussian noise needs epsilon > 0 and 0 < delta < 1 "
            f"(got epsilon {epsilon}, delta {delta})"
        )
    low, high = 0.0, 1.0
    while gaussian_delta(epsilon, high) > delta:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if gaussian_delta(epsilon, middle) > delta else (low, middle)
    return high


@torch.no_grad()
def add_gaussian_noise(
    block: Sequence[Tensor], sigma: float, entropy: Callable[[int], bytes]
) -> None:
    """Add noise from N(0, σ²) to every parameter of ``block`` in place.

    ``block`` holds tensors of any shape; ``entropy(n)`` returns n secret random bytes. The (ε, δ)
    guarantee assumes noise of unlimited precision, but this noise is in floating point. Therefore
    the guarantee does not cover the lowest bits of a released number.
    """
    for parameter in block:
        words = torch.frombuffer(bytearray(entropy(8 * parameter.numel())), dtype=torch.int64)
        # The upper 53 bits, moved to the middles of equal parts of (0, 1).
        shares = ((words >> (64 - _BITS)).double() + 2.0 ** (_BITS - 1) + 0.5) / 2.0**_BITS
        drawn = (sigma * torch.special.ndtri(shares)).to(parameter.dtype)
        parameter.add_(drawn.reshape(parameter.shape))


def _normal_cdf(value: float) -> float:
    """Return Φ(value), the distribution function of the standard normal distribution."""
    return math.erfc(-value / math.sqrt(2)) / 2
