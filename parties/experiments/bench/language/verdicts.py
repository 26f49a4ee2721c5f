"""Verdicts on the tiny language model: which orderings of the paper are reproduced."""

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Final

from parties.experiments.bench.results import Results, SeedSeries, TableRow, seed_differences
from parties.experiments.bench.verdicts import ABOVE_ZERO, FEWEST, BenchVerdict, judge_value

TINY: Final = "tiny Llama, forget10"
FORGETTING: Final = ("grad-ascent", "grad-diff", "npo", "simnpo", "retrain")


def language_verdicts(results: Results) -> list[BenchVerdict]:
    """Return all verdicts; a verdict with too few seeds has no value."""
    return [*ordering_verdicts(results), *collapse_verdicts(results)]


def ordering_verdicts(results: Results) -> Iterator[BenchVerdict]:
    """Table 7: every method has a higher forget truth ratio than the original, as Retrain has."""
    before = _series(results, "FedAvg", "original", "ftr")
    for name in FORGETTING:
        higher = seed_differences(_series(results, "FedAvg", name, "ftr"), before)
        title = f"Table 7: FTR of {name} minus that before unlearning, {TINY}"
        yield _judge(title, higher, ABOVE_ZERO, "above 0")


def collapse_verdicts(results: Results) -> Iterator[BenchVerdict]:
    """Table 7: unscaled server momentum (FedAvgM) destroys model utility."""
    for name in FORGETTING[:-1]:
        ours = _series(results, "FedAvgM", name, "mu")
        title = f"Table 7: MU of {name} by FedAvgM, {TINY}"
        yield _judge(title, ours, (-math.inf, 0.05), "at most 0.05 (the paper: 0.0003 to 0.043)")


def _series(results: Results, rule: str, method: str, measure: str) -> SeedSeries:
    return results.series(TINY, TableRow("", rule, method), measure)


def _judge(
    name: str, series: SeedSeries, between: tuple[float, float], wanted: str
) -> BenchVerdict:
    mean = fmean(series.values()) if len(series) >= FEWEST else None
    return judge_value(name, mean, "", between, wanted)
