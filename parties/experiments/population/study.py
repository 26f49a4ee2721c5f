"""A forgetting study: one file of results per population and seed, and a summary."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from time import monotonic
from typing import Any

from parties.common.atomic_file import write_atomically
from parties.common.errors import PolicyError
from parties.experiments.population.audit import PopulationAudit
from parties.experiments.population.forget_sets import draw_forget_sets
from parties.experiments.population.methods import run_population_method
from parties.experiments.population.plan import Population, Study
from parties.experiments.population.pooled_data import read_pooled_data
from parties.experiments.population.run import train_originals
from parties.experiments.provenance import SCOPES, Provenance
from parties.vertical.methods.fedora import FedoraSettings
from protocol import vfl_pb2
from unlearning.audit.epsilon import AttackCounts, EpsilonBound, epsilon_bound
from unlearning.audit.equivalence import Equivalence, equivalence_test

Record = dict[str, Any]
Describe = Callable[[str], None]
AUDITS = ("vs_retrain", "u_lira")
NULL, ORIGINAL = "Retrain against Retrain", "original"
LATEST = "retrain_accuracies"  # absent in parts written by earlier versions


@dataclass(frozen=True, slots=True)
class StudyPlace:
    """Folders of a study: the folders of its config file, its data and its result files."""

    configs: Path  # the folder of the study's file
    data: Path | None
    out: Path


def run_study_parts(
    study: Study, chosen: Sequence[Population], place: StudyPlace, seeds: int
) -> Iterator[Callable[[Describe], Record]]:
    """Yield one function per population and seed, which reads or computes the results."""
    for population in chosen:
        for seed in range(study.first, study.first + seeds):
            yield partial(_read_or_compute, study, population, place, seed)


def _read_or_compute(
    study: Study, population: Population, place: StudyPlace, seed: int, describe: Describe
) -> Record:
    """Return one population with one seed, from its file or computed."""
    part = place.out / f"{_digest(study, population, place, seed)}.json"
    if part.exists():
        stored: Record = json.loads(part.read_text())
        if LATEST in stored:  # a part of an earlier version is computed again
            return stored
    record = audit_population(study, population, place, seed, describe)
    place.out.mkdir(parents=True, exist_ok=True)
    write_atomically(part, json.dumps(record).encode())
    return record


def _digest(study: Study, population: Population, place: StudyPlace, seed: int) -> str:
    """Return a digest of all settings that determine the result."""
    rows = [row.model_dump(mode="json") for row in study.rows(population)]
    source = (place.configs / population.config).read_text()
    paper_form = study.paper_form.get(population.name, {})
    settings = json.dumps([population.model_dump(mode="json"), rows, paper_form, source, seed])
    return sha256(settings.encode()).hexdigest()[:16]


def audit_population(
    study: Study, population: Population, place: StudyPlace, seed: int, describe: Describe
) -> Record:
    """Train a population and audit every method on it.

    Raises:
        PolicyError: a method does not support this population.
    """
    began, name = monotonic(), f"{population.name}, seed {seed}"
    describe(f"{name}: training {2 * population.runs} models")
    changes = (f"seed={seed}", *population.changes)
    pooled = read_pooled_data(
        place.configs / population.config, place.data, changes, population.rows
    )
    sets = draw_forget_sets(pooled, pooled.agreement.unlearn[0], population.runs)
    original = train_originals(sets, "original", vfl_pb2.TRAIN_ROWS)
    population_audit = PopulationAudit(sets, train_originals(sets, "retrain", vfl_pb2.RETAIN))
    audited = {ORIGINAL: asdict(population_audit.audit_method(original.original))}
    for row in study.rows(population):
        describe(f"{name}: {row.name}")
        form = row.form(
            pooled.agreement.unlearning.of(FedoraSettings), study.paper_form_of(population)
        )
        agreed = replace(original.pooled, agreement=row.agreement(pooled.agreement))
        try:
            models = run_population_method(replace(original, pooled=agreed), row.way, form)
            audited[row.name] = asdict(population_audit.audit_method(models))
        except ValueError as error:
            raise PolicyError(
                f"population {name}, method {row.name!r}: {error}",
                "set a smaller step size for this method in the study's file",
            ) from error
    return {
        "population": population.name,
        "provenance": asdict(Provenance.here(SCOPES["forgetting"])),
        "seed": seed,
        "runs": population.runs,
        "rows": len(sets.pool),
        "learned": len(sets.rows(0).train),
        "null": asdict(population_audit.null()) | {"taken": asdict(population_audit.null_counts())},
        LATEST: population_audit.accuracies,
        "rows_judged": audited,
        "seconds": monotonic() - began,
    }


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """One method on a population over all seeds."""

    population: str
    name: str
    auc: dict[str, float]  # mean AUC over seeds, by audit
    # Standard error of the AUC: the larger of the standard error over seeds and the bootstrap
    # standard error over models.
    error: dict[str, float]
    gap: float  # test accuracy minus that of the Retrain models, in percentage points
    distance: float
    models: int  # number of unlearned models per seed; there are as many Retrain models
    training_rows: int  # number of training rows of each model before unlearning
    # Lower bound of ε from the attack that classifies whole models, over all seeds.
    bound: EpsilonBound
    # Equivalence test between the test accuracies of unlearned models and of Retrain models. From
    # each accuracy, the mean accuracy of the Retrain models with the same seed is subtracted. The
    # value is None in the summary of the Retrain models.
    equivalent: Equivalence | None = None


def summarise_study(records: Sequence[Record]) -> Iterator[MethodSummary]:
    """Yield summaries per population: first of the Retrain models, then of each method."""
    for population in dict.fromkeys(record["population"] for record in records):
        own = [record for record in records if record["population"] == population]
        yield _null(population, own)
        for name in own[0]["rows_judged"]:
            yield _summary(population, name, own)


def _summary(population: str, name: str, own: Sequence[Record]) -> MethodSummary:
    found = [record["rows_judged"][name] for record in own]
    return MethodSummary(
        population,
        name,
        {audit: fmean(each[audit]["auc"] for each in found) for audit in AUDITS},
        {audit: _error([each[audit] for each in found]) for audit in AUDITS},
        100 * fmean(each["gap"] for each in found),
        fmean(each["distance"][0] for each in found),
        own[0]["runs"],
        own[0]["learned"],
        _epsilon_bounds(found),
        _equivalent(name, own),
    )


def _null(population: str, own: Sequence[Record]) -> MethodSummary:
    nulls = [record["null"] for record in own]
    auc, error = {"vs_retrain": fmean(each["auc"] for each in nulls)}, _error(nulls)
    scale = (own[0]["runs"], own[0]["learned"])
    return MethodSummary(
        population, NULL, auc, {"vs_retrain": error}, 0.0, 0.0, *scale, _epsilon_bounds(nulls)
    )


def _epsilon_bounds(found: Sequence[Mapping[str, Any]]) -> EpsilonBound:
    return epsilon_bound(
        sum((AttackCounts(**each["taken"]) for each in found), AttackCounts(0, 0, 0, 0))
    )


def _equivalent(name: str, own: Sequence[Record]) -> Equivalence:
    """TOST over the models of all seeds, each minus the mean of its seed's Retrains."""
    unlearned, retrains = list[float](), list[float]()
    for record in own:
        mean = fmean(record[LATEST])
        unlearned += [each - mean for each in record["rows_judged"][name]["accuracies"]]
        retrains += [each - mean for each in record[LATEST]]
    return equivalence_test(unlearned, retrains)


def _error(figures: Sequence[Mapping[str, float]]) -> float:
    within = sqrt(fmean(each["error"] ** 2 for each in figures))
    between = stdev(each["auc"] for each in figures) if len(figures) > 1 else 0.0
    return max(within, between) / sqrt(len(figures))
