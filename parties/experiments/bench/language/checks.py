"""Reproduction checks on the tiny language model: which orderings of the paper are reproduced."""

import math
from collections.abc import Iterator
from typing import Final

from parties.experiments.bench.checks import ABOVE_ZERO, ReproductionCheck, judge_mean
from parties.experiments.bench.results import Results, SeedSeries, TableRow, seed_differences

TINY: Final = "tiny Llama, forget10"
FORGETTING: Final = ("grad-ascent", "grad-diff", "npo", "simnpo", "retrain")


def language_checks(results: Results) -> list[ReproductionCheck]:
    """Return all checks; a check with too few seeds has no value."""
    return [*ordering_checks(results), *collapse_checks(results)]


def ordering_checks(results: Results) -> Iterator[ReproductionCheck]:
    """Table 7: all methods and Retrain have a higher forget truth ratio than the original model."""
    before = _series(results, "FedAvg", "original", "ftr")
    for name in FORGETTING:
        higher = seed_differences(_series(results, "FedAvg", name, "ftr"), before)
        title = f"Table 7: FTR of {name} minus that before unlearning, {TINY}"
        yield judge_mean(title, higher, ABOVE_ZERO, "above 0")


def collapse_checks(results: Results) -> Iterator[ReproductionCheck]:
    """Table 7: with the aggregation rule FedAvgM, the model utility of a method is at most 0.05."""
    for name in FORGETTING[:-1]:
        ours = _series(results, "FedAvgM", name, "mu")
        title = f"Table 7: MU of {name} by FedAvgM, {TINY}"
        yield judge_mean(
            title, ours, (-math.inf, 0.05), "at most 0.05 (the paper: 0.0003 to 0.043)"
        )


def _series(results: Results, rule: str, method: str, measure: str) -> SeedSeries:
    return results.series(TINY, TableRow("", rule, method), measure)
