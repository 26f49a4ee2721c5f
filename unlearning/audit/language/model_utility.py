"""Model utility: what a language model is still good for, one number out of nine (TOFU)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Three figures of one question set, each in [0, 1], higher better."""

    probability: float  # by token; among the options for real authors and world facts
    rouge: float  # mean ROUGE-L recall
    truth_ratio: float  # mean max(0, 1 − R)


def model_utility(retain: Answers, real_authors: Answers, world_facts: Answers) -> float:
    """Return MU, the harmonic mean of the nine figures; 0 where one of them is 0.

    Raises:
        ValueError: a figure is not in [0, 1].
    """
    # Oblivionis (paper 000) Eq 18: 9 / Σ 1/m.
    sets = (retain, real_authors, world_facts)
    return harmonic_mean(
        [x for each in sets for x in (each.probability, each.rouge, each.truth_ratio)]
    )


def harmonic_mean(values: Sequence[float]) -> float:
    """Return n / Σ 1/x, and 0 where one is 0: none is dropped.

    Raises:
        ValueError: there are none, or one is not in [0, 1].
    """
    strange = [value for value in values if not 0.0 <= value <= 1.0]  # NaN among them
    if strange or not values:
        raise ValueError(f"figures of utility lie in [0, 1], and there is one at least: {strange}")
    # 1/x of the smallest doubles is infinite, which gives 0 as well.
    return len(values) / math.fsum(1.0 / x if x else math.inf for x in values)
