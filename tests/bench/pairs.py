"""Ratios of times: both sides are measured in alternating pairs within one run.

Other programs use the machine too, and its speed changes within minutes. The two sides of a pair
are measured directly after each other, so such a change affects both. The ratio is the median over
the pairs, and the spread is given by the quartiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

Measure = Callable[[], float]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """Ratio of two measured quantities over several pairs; ``low`` and ``high`` are quartiles."""

    median: float
    low: float
    high: float
    pairs: int


def alternate(
    measures: Mapping[str, Measure], pairs: int, report: Report, warm_up: int = 0
) -> dict[str, list[float]]:
    """Measure all sides once per pair, in turn, and return the values by name.

    Every second pair runs in the opposite order, so that a steady drift cancels out. The first
    ``warm_up`` pairs are not returned.
    """
    values: dict[str, list[float]] = {name: [] for name in measures}
    for number in range(-warm_up, pairs):
        report(f"pair {number + 1} of {pairs}" if number >= 0 else "warming up")
        order = list(measures) if number % 2 == 0 else list(measures)[::-1]
        for name in order:
            value = measures[name]()
            values[name] += [value] if number >= 0 else []
    return values


def paired_ratio(over: Sequence[float], under: Sequence[float]) -> PairedRatio:
    """Return the ratio of two sides that were measured in pairs.

    Raises:
        ValueError: there is no pair, or a side has more measurements than the other.
    """
    ratios = [one / other for one, other in zip(over, under, strict=True)]
    if not ratios:
        raise ValueError("a ratio needs at least one pair")
    low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else 3 * ratios
    return PairedRatio(median(ratios), low, high, len(ratios))
