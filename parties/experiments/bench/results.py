"""Results of all finished runs, by experiment, variant, method and seed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import TypeAlias

from configs.errors import ConfigError
from parties.experiments.bench.cache import CachedRun
from parties.experiments.bench.plan import PlannedRun, Values
from parties.experiments.provenance import Provenance

SeedSeries: TypeAlias = dict[int, float]  # one figure by seed


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table: a method in one variant of an experiment."""

    label: str
    variant: str
    method: str


@dataclass(frozen=True, slots=True)
class MeanSd:
    """Mean and standard deviation over ``n`` seeds; ``sd`` is None for one seed."""

    mean: float
    sd: float | None
    n: int


@dataclass(slots=True)
class Results:
    """Values of finished runs, by experiment, variant and method."""

    found: dict[tuple[str, str, str], dict[int, Values]] = field(default_factory=dict)
    wanted: int = 0  # number of planned runs
    there: int = 0  # number of finished runs
    provenance: Provenance = field(default_factory=Provenance)  # of all finished runs together
    hours: float = 0.0  # run time with two runs at a time, timed runs one at a time
    # Number of runs without a recorded base model, although others of their experiment have one.
    unknown_bases: int = 0

    def series(self, experiment: str, row: TableRow, measure: str) -> SeedSeries:
        """Return the values of a measure in a table row, by seed; empty if there are no runs."""
        by_seed = self.found.get((experiment, row.variant, row.method), {})
        return {seed: each[measure] for seed, each in sorted(by_seed.items()) if measure in each}


def collect_results(wanted: Iterable[PlannedRun], stored: Mapping[str, CachedRun]) -> Results:
    """Collect the values of the ``wanted`` runs; ``stored`` maps a digest to a finished run.

    Raises:
        ConfigError: runs of one experiment have different base models.
    """
    planned = list(wanted)
    there = [run for run in planned if run.digest in stored]
    found: dict[tuple[str, str, str], dict[int, Values]] = defaultdict(lambda: defaultdict(dict))
    for run in there:
        for method, values in stored[run.digest].values.items():
            found[run.experiment, run.variant, method][run.seed] |= values
    measured = Provenance.common(stored[run.digest].provenance for run in there)
    different, made = ({run.digest for run in group} for group in (planned, there))
    hours = {run.digest: _hours(run, stored[run.digest]) for run in there}
    return Results(
        dict(found), len(different), len(made), measured, sum(hours.values()),
        _unknown_bases(there, stored),
    )  # fmt: skip


def _unknown_bases(there: Iterable[PlannedRun], stored: Mapping[str, CachedRun]) -> int:
    """Return the number of runs whose base model may differ from that of their experiment."""
    digests: dict[str, dict[str, CachedRun]] = defaultdict(dict)  # by experiment and run
    for run in there:
        digests[run.experiment][run.digest] = stored[run.digest]
    unknown = 0
    for experiment, runs in digests.items():
        known = {each.base: (digest, each) for digest, each in runs.items() if each.base}
        if len(known) > 1:
            parts = [
                f"{base[:12]}… in {each.title!r} ({digest})"
                for base, (digest, each) in known.items()
            ]
            raise ConfigError(
                f"the runs of {experiment!r} have different base models: {'; '.join(parts)}",
                "remove the runs with the wrong base model from runs.json, and their folders from "
                "the folder of --out; then run the command again with one base model in --data",
            )
        unknown += sum(not each.base for each in runs.values()) if known else 0
    return unknown


def _hours(run: PlannedRun, cached: CachedRun) -> float:
    hours = cached.seconds / 3600
    return hours if run.processes else hours / 2


def mean_sd(series: Mapping[int, float]) -> MeanSd | None:
    """Return mean and standard deviation over seeds; None for an empty series."""
    values = list(series.values())
    if not values:
        return None
    return MeanSd(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def seed_differences(ours: SeedSeries, reference: SeedSeries) -> SeedSeries:
    """Return ``ours`` minus ``reference`` for every seed that occurs in both series."""
    return {seed: ours[seed] - reference[seed] for seed in ours if seed in reference}


def seed_ratios(ours: SeedSeries, reference: SeedSeries) -> SeedSeries:
    """Return ``ours`` over ``reference`` for every seed in both series whose divisor is not 0."""
    return {seed: ours[seed] / reference[seed] for seed in ours if reference.get(seed)}
