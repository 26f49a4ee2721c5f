"""Search of settings: one rule chooses the settings of every method, on seeds of its own.

For each method, a fixed number of settings is tried: first the defaults, then a Latin hypercube
over the ranges of the study's file. Among the settings whose accuracy on validation rows is at most
one point (``search.utility``) below that of Retrain, the rule takes the one with the lowest leak.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from scipy.stats import qmc

from configs.errors import ConfigError
from parties.common.atomic_file import write_atomically
from parties.experiments.population.audit import leak
from parties.experiments.population.measured import Measured
from parties.experiments.population.part import (
    Describe,
    PartPlan,
    StudyPart,
    StudyPlace,
)
from parties.experiments.population.plan import RETRAIN, Population, Study, StudyMethod
from parties.experiments.provenance import Provenance

NAME: Final = "forgetting-search.json"


@dataclass(frozen=True, slots=True)
class Trial:
    """One set of settings of a method, measured on the models of all seeds of the search."""

    settings: dict[str, Any]  # the settings that the search chose
    leak: float  # mean over seeds; 0.5: no leak
    utility: float  # accuracy on validation rows minus that of Retrain, mean over seeds
    rows_of_retrain: float  # cost
    seconds: float  # of all seeds
    failure: str | None = None  # why the trial has no model; None if it has


@dataclass(frozen=True, slots=True)
class Choice:
    """The settings of a method on a population, with all trials."""

    population: str
    row: str
    settings: dict[str, Any]
    useful: (
        bool  # whether a trial was within the limit of accuracy; else the most accurate is taken
    )
    trials: list[Trial]
    provenance: Provenance  # of all trials together


def search_steps(study: Study, chosen: Sequence[Population]) -> int:
    """Return the number of trials of a search, for the progress display."""
    rows = sum(len([row for row in study.rows(each) if row.search]) for each in chosen)
    return rows * study.search.trials


def search_plans(
    study: Study, population: Population, place: StudyPlace
) -> list[tuple[PartPlan, list[StudyMethod]]]:
    """Return the plan of each seed of a search, and what is measured of its models."""
    plans = _plans(study, population)
    rate = StudyPart(plans[0], place, lambda _: None).agreement.training.learning_rate
    searched = [row for row in study.rows(population) if row.search]
    rows = [tried for row in searched for tried, _ in tried_rows(study, row, rate)]
    return [(plan, [RETRAIN, *rows]) for plan in plans]


def _plans(study: Study, population: Population) -> list[PartPlan]:
    small = population.model_copy(update={"runs": study.search.runs, "trigger": None})
    return [PartPlan.of(study, small, seed) for seed in study.search.seeds]


def search_settings(
    study: Study,
    population: Population,
    place: StudyPlace,
    describe: Describe,
    advance: Callable[[], None],
) -> Iterator[Choice]:
    """Yield the choice for each method with ranges; finished trials are read from their files.

    ``advance`` is called after each trial.
    """
    parts = [StudyPart(plan, place, describe) for plan in _plans(study, population)]
    rate = parts[0].agreement.training.learning_rate
    for row in study.rows(population):
        if row.search:
            trials, origins = list[Trial](), _origins(part.measured(RETRAIN) for part in parts)
            for tried, settings in tried_rows(study, row, rate):
                found = [part.measured(tried) for part in parts]
                trials.append(_trial(settings, parts, found))
                origins |= _origins(found)
                advance()
            yield choose(study, population, row, trials, Provenance.common(origins))


def tried_rows(
    study: Study, row: StudyMethod, training_rate: float
) -> list[tuple[StudyMethod, dict[str, Any]]]:
    """Return the row with each of the settings to try, and these settings."""
    points = qmc.LatinHypercube(len(row.search), rng=0).random(study.search.trials - 1)
    found = [dict[str, Any]()]
    found += [row.drawn(point, training_rate) for point in points]
    return [(row.with_settings(each), each) for each in found]


def _origins(measured: Iterable[Measured]) -> set[Provenance]:
    return {Provenance(**each.facts["provenance"]) for each in measured}


def _trial(
    settings: dict[str, Any], parts: Sequence[StudyPart], found: Sequence[Measured]
) -> Trial:
    measured = list(zip(parts, found, strict=True))
    failures = [each.facts["failure"] for each in found if each.facts["failure"]]
    seconds = sum(each.facts["seconds"] for each in found)
    if failures:
        return Trial(settings, 1.0, -1.0, 0.0, seconds, failures[0])
    lost = fmean(
        each.validation.mean() - part.measured(RETRAIN).validation.mean() for part, each in measured
    )
    leaks = fmean(leak(each, part.learned) for part, each in measured)
    share = fmean(each.facts["rows_of_retrain"] for each in found)
    return Trial(settings, leaks, lost, share, seconds)


def choose(
    study: Study,
    population: Population,
    row: StudyMethod,
    trials: list[Trial],
    measured: Provenance,
) -> Choice:
    """Return the trial with the lowest leak among the useful ones, else the most accurate one."""
    useful = [each for each in trials if each.utility >= -study.search.utility]
    best = (
        min(useful, key=lambda each: each.leak)
        if useful
        else max(trials, key=lambda each: each.utility)
    )
    return Choice(population.name, row.name, best.settings, bool(useful), trials, measured)


def write_choices(path: Path, choices: Sequence[Choice]) -> None:
    """Write choices to a file, in place of earlier choices of the same populations and rows.

    The file has the common provenance of all its choices.
    """
    earlier = _read(path)["choices"] if path.exists() else []
    new = {(each.population, each.row) for each in choices}
    kept = [each for each in earlier if (each["population"], each["row"]) not in new]
    written = kept + [asdict(each) for each in choices]
    common = Provenance.common(Provenance(**each["provenance"]) for each in written)
    content = {**asdict(common), "choices": written}
    write_atomically(path, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
    path.chmod(0o644)


def read_choices(path: Path) -> Mapping[tuple[str, str], dict[str, Any]]:
    """Return the chosen settings by population and row; empty without a file."""
    if not path.exists():
        return {}
    return {(each["population"], each["row"]): each["settings"] for each in _read(path)["choices"]}


def with_choices(
    rows: Sequence[StudyMethod],
    population: Population,
    choices: Mapping[tuple[str, str], dict[str, Any]],
) -> list[StudyMethod]:
    """Return the rows with the settings that the search chose.

    Raises:
        ConfigError: the settings of a method were not searched yet.
    """
    lacking = [
        row.name for row in rows if row.search and (population.name, row.name) not in choices
    ]
    if lacking:
        raise ConfigError(
            f"population {population.name!r}: the settings of these rows are not chosen yet: "
            f"{', '.join(lacking)}",
            f"run `vfl bench forgetting-search --only {population.name!r}` first",
        )
    return [row.with_settings(choices.get((population.name, row.name), {})) for row in rows]


def _read(path: Path) -> dict[str, Any]:
    """Return the content of the file; where it has no provenance of a choice, it is unknown."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        choices = [{"provenance": asdict(Provenance())} | each for each in content["choices"]]
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise ConfigError(f"{path} is not a file of chosen settings: {error}") from error
    return content | {"choices": choices}
