"""Verdicts on the tiny model: which of the paper's orderings hold, computed from the runs."""

import math
from collections.abc import Iterator
from statistics import fmean
from typing import Final

from parties.experiments.bench.results import Results, Row, Series, differences
from parties.experiments.bench.verdicts import ABOVE_ZERO, FEWEST, Verdict, judge

TINY: Final = "tiny Llama, forget10"
FORGETTING: Final = ("grad-ascent", "grad-diff", "npo", "simnpo", "retrain")


def language_verdicts(found: Results) -> list[Verdict]:
    """All of them; those without runs, or of too few seeds, have no value."""
    return [*orderings(found), *collapse(found)]


def orderings(found: Results) -> Iterator[Verdict]:
    """Table 7: every way has a higher truth ratio than the model before, as Retrain has."""
    before = _series(found, "FedAvg", "original", "ftr")
    for name in FORGETTING:
        higher = differences(_series(found, "FedAvg", name, "ftr"), before)
        title = f"Table 7: FTR of {name} minus that before unlearning, {TINY}"
        yield _judge(title, higher, ABOVE_ZERO, "above 0")


def collapse(found: Results) -> Iterator[Verdict]:
    """Table 7: the momentum of the server, unscaled, ends the model's utility."""
    for name in FORGETTING[:-1]:
        ours = _series(found, "FedAvgM", name, "mu")
        title = f"Table 7: MU of {name} by FedAvgM, {TINY}"
        yield _judge(title, ours, (-math.inf, 0.05), "at most 0.05 (the paper: 0.0003 to 0.043)")


def _series(found: Results, rule: str, method: str, measure: str) -> Series:
    return found.series(TINY, Row("", rule, method), measure)


def _judge(name: str, series: Series, between: tuple[float, float], wanted: str) -> Verdict:
    mean = fmean(series.values()) if len(series) >= FEWEST else None
    return judge(name, mean, "", between, wanted)
