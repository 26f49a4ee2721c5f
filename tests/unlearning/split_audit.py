"""Empirical ε from independent scores: the threshold is chosen on one half of the trials."""

import numpy as np
from numpy.typing import NDArray

from unlearning.audit.epsilon import EpsilonBound, best_threshold, count_above, epsilon_bound


def split_epsilon_bound(
    members: NDArray[np.float64], others: NDArray[np.float64], *, delta: float = 0.0
) -> EpsilonBound:
    """Return the bound of ε, counted on the second half of the scores, ``[trials]`` per group."""
    (first_in, second_in), (first_out, second_out) = (
        np.array_split(side, 2) for side in (members, others)
    )
    threshold = best_threshold(first_in, first_out, delta=delta)
    return epsilon_bound(count_above(second_in, second_out, threshold), delta=delta)
