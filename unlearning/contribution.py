"""ICO-like's estimate of what D_u taught: one gradient, taken back by adding it.

What training added is about −η ∇CE(D_u) in proportion to D_u's part of the rows, so taking it back
is a step of ascent. Letters: n_u of n rows, c_u = the contribution, η_c = ``step``, r = ``limit``,
θ₀ = the original's parameters. Reimplemented from a description (Li et al., J. Supercomputing 81,
845), hence "like": the authors' own form is not public.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """How much of the gradient on D_u is taken back."""

    step: float  # η_c
    share: float  # n_u / n
    limit: float  # r

    def factor(self, gradient_square: float, parameter_square: float) -> float:
        """Return what to multiply ∇CE(D_u) by; both squares are sums over all parties' blocks."""
        # c_u = (η_c n_u / n) ∇CE(D_u; θ₀), clipped to ‖c_u‖ ≤ r ‖θ₀‖.
        factor = self.step * self.share
        size, bound = factor * math.sqrt(gradient_square), self.limit * math.sqrt(parameter_square)
        return factor if size <= bound else factor * bound / size
