"""The results: what all runs that are there say of every method, by seed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import TypeAlias

from parties.experiments.bench.cache import Stored
from parties.experiments.bench.extract import Values
from parties.experiments.bench.plan import Run

Series: TypeAlias = dict[int, float]  # one figure by seed


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: a method in one variant of an experiment."""

    label: str
    variant: str
    method: str


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over seeds; ``sd`` has no value for one seed."""

    mean: float
    sd: float | None
    n: int


@dataclass(slots=True)
class Results:
    """Figures by experiment, variant and method; the clean and the poisoned run stand together."""

    found: dict[tuple[str, str, str], dict[int, Values]] = field(default_factory=dict)
    wanted: int = 0  # runs
    there: int = 0
    sources: frozenset[str] = frozenset()  # digests of the programs that made them
    hours: float = 0.0  # of all that are there, two at a time; timed ones alone

    def series(self, experiment: str, row: Row, measure: str) -> Series:
        """One figure of one row, by seed; empty where no run has it."""
        by_seed = self.found.get((experiment, row.variant, row.method), {})
        return {seed: each[measure] for seed, each in sorted(by_seed.items()) if measure in each}


def results(wanted: Iterable[Run], stored: Mapping[str, Stored]) -> Results:
    """Collect; ``stored`` are the runs that are there, by digest."""
    planned = list(wanted)
    there = [run for run in planned if run.digest in stored]
    found: dict[tuple[str, str, str], dict[int, Values]] = defaultdict(lambda: defaultdict(dict))
    for run in there:
        for method, values in stored[run.digest].values.items():
            found[run.experiment, run.variant, method][run.seed] |= values
    programs = frozenset(stored[run.digest].sources for run in there)
    different, made = ({run.digest for run in group} for group in (planned, there))
    took = {run.digest: _hours(run, stored[run.digest]) for run in there}
    return Results(dict(found), len(different), len(made), programs, sum(took.values()))


def _hours(run: Run, made: Stored) -> float:
    alone = made.seconds / 3600
    return alone if run.processes else alone / 2


def spread(series: Mapping[int, float]) -> Spread | None:
    """Mean and standard deviation over seeds; None without any."""
    values = list(series.values())
    if not values:
        return None
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def differences(ours: Series, reference: Series) -> Series:
    """Ours minus the reference's, seed by seed where both are known."""
    return {seed: ours[seed] - reference[seed] for seed in ours if seed in reference}
