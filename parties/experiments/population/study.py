"""A forgetting study: what is measured of every method on every population, and a summary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parties.common.errors import PolicyError
from parties.experiments.population.audit import (
    AUDITS,
    U_LIRA,
    VS_RETRAIN,
    PopulationAudit,
    SeedEstimates,
)
from parties.experiments.population.measured import Floats, Measured
from parties.experiments.population.part import (
    Describe,
    PartPlan,
    StudyPart,
    StudyPlace,
)
from parties.experiments.population.plan import ORIGINAL, RETRAIN, Population, Study, StudyMethod
from parties.experiments.population.summary import (
    NULL,
    MeasurementKey,
    MethodSummary,
    PopulationSummary,
    Spread,
)
from parties.experiments.provenance import Provenance
from parties.vertical.methods.fedora import ConstraintUse
from unlearning.audit.bias_curve import BiasCurve, CorrectedAuc, corrected_auc
from unlearning.audit.epsilon import AttackCounts, epsilon_bound
from unlearning.audit.equivalence import equivalence_over_seeds


@dataclass(frozen=True, slots=True)
class MeasuredPart:
    """All measurements on one population with one seed."""

    population: Population
    seed: int
    learned: NDArray[np.bool_]  # whether each run forgot each row of the pool, ``[runs, pool]``
    rows: Mapping[str, Measured]  # by name, with the original models and the Retrain models

    @property
    def retrain(self) -> Measured:
        """What is measured of the Retrain models."""
        return self.rows[RETRAIN.name]


def study_plans(
    study: Study, rows: Mapping[str, Sequence[StudyMethod]], seeds: int
) -> Iterator[tuple[PartPlan, Sequence[StudyMethod]]]:
    """Yield the plan of each population with each seed, and all its methods.

    ``rows`` are the methods of each chosen population, by the population's name.
    """
    for name, methods in rows.items():
        (population,) = study.chosen((name,))
        for seed in range(study.first, study.first + seeds):
            plan = PartPlan.of(study, population, seed)
            yield plan, (ORIGINAL, RETRAIN, *methods)


def missing_measurements(
    work: Sequence[tuple[PartPlan, Sequence[StudyMethod]]], place: StudyPlace
) -> set[MeasurementKey]:
    """Return the measurements that have no file yet."""
    parts = [(StudyPart(plan, place, lambda _: None), methods) for plan, methods in work]
    return {
        (part.plan.population.name, part.plan.seed, row.name)
        for part, methods in parts
        for row in methods
        if not part.path(row).exists()
    }


def seconds_of_methods(parts: Sequence[MeasuredPart]) -> dict[MeasurementKey, float]:
    """Return the seconds that each measurement took, without the training of the models."""
    return {
        (part.population.name, part.seed, name): each.facts["seconds"]
        for part in parts
        for name, each in part.rows.items()
    }


def origins_of(parts: Sequence[MeasuredPart]) -> list[Provenance]:
    """Return the provenance of each measurement."""
    found = [each.facts for part in parts for each in part.rows.values()]
    return [Provenance(**facts["provenance"]) for facts in found]


def measure_part(
    plan: PartPlan, methods: Sequence[StudyMethod], place: StudyPlace, describe: Describe
) -> MeasuredPart:
    """Read or compute the measurements of a part.

    Raises:
        PolicyError: the models of a method diverged.
    """
    part = StudyPart(plan, place, describe)
    measured = {row.name: part.measured(row) for row in methods}
    for name, each in measured.items():
        if each.facts["failure"]:
            raise PolicyError(
                f"population {part.name}, method {name!r}: {each.facts['failure']}",
                "set a smaller step size for this method in the study's file",
            )
    return MeasuredPart(plan.population, plan.seed, part.learned, measured)


def summarise_study(parts: Sequence[MeasuredPart]) -> Iterator[PopulationSummary]:
    """Yield the summary of every population."""
    for name in dict.fromkeys(part.population.name for part in parts):
        yield _Summary([part for part in parts if part.population.name == name]).summary()


class _Summary:
    """The summary of the parts of one population, one part per seed."""

    def __init__(self, parts: Sequence[MeasuredPart]) -> None:
        self._parts = parts
        self._audits = [PopulationAudit(part.learned, part.retrain) for part in parts]
        self._curves = [audit.curves() for audit in self._audits]

    def summary(self) -> PopulationSummary:
        """Return the null, and all methods in the order of the tables."""
        curves = {
            name: BiasCurve.mean([each[name] for each in self._curves]) for name in self._curves[0]
        }
        names = [name for name in self._parts[0].rows if name != RETRAIN.name]
        methods = [self._null(), *(self._method(name) for name in names)]
        return PopulationSummary(self._parts[0].population.name, curves, methods)

    def _null(self) -> MethodSummary:
        """Retrain models against Retrain models; U-LiRA of rows that no model has seen."""
        found = [audit.null() for audit in self._audits]
        unseen = [
            audit.estimates(part.retrain)
            for audit, part in zip(self._audits, self._parts, strict=True)
        ]
        auc = {
            U_LIRA: self._corrected(U_LIRA, U_LIRA, unseen),
            VS_RETRAIN: self._corrected(VS_RETRAIN, "null", found),
        }
        worst = {
            U_LIRA: fmean(each.worst[U_LIRA] for each in unseen),
            VS_RETRAIN: fmean(each.worst[VS_RETRAIN] for each in found),
        }
        return self._row(NULL, RETRAIN.name, auc, worst, found)

    def _method(self, name: str) -> MethodSummary:
        found = [
            audit.estimates(part.rows[name])
            for audit, part in zip(self._audits, self._parts, strict=True)
        ]
        auc = {audit: self._corrected(audit, audit, found) for audit in AUDITS}
        worst = {audit: fmean(each.worst[audit] for each in found) for audit in AUDITS}
        return self._row(name, name, auc, worst, found)

    def _corrected(self, audit: str, curve: str, found: Sequence[SeedEstimates]) -> CorrectedAuc:
        return corrected_auc(
            [each.auc[audit] for each in found], [each[curve] for each in self._curves]
        )

    def _row(
        self,
        name: str,
        measured: str,
        auc: dict[str, CorrectedAuc],
        worst: dict[str, float],
        found: Sequence[SeedEstimates],
    ) -> MethodSummary:
        own = [part.rows[measured] for part in self._parts]
        retrains = [part.retrain for part in self._parts]
        pairs = list(zip(own, retrains, strict=True))
        first, same = own[0], measured == RETRAIN.name
        taken = sum((each.taken for each in found), AttackCounts(0, 0, 0, 0))
        return MethodSummary(
            population=self._parts[0].population.name,
            name=name,
            way=first.facts["row"]["way"],
            settings=first.facts["row"]["settings"],
            auc=auc,
            worst=worst,
            excess=Spread.of([each.excess for each in found]),
            gap=Spread.of([100 * (a.test.mean() - b.test.mean()) for a, b in pairs]),
            changed=Spread.of([100 * each.changed.mean() for each in own]),
            triggered=_percent([each.triggered for each in own]),
            planted=_percent([each.planted for each in own]),
            rows=fmean(each.facts["rows_of_retrain"] for each in own),
            distance=fmean(each.distance for each in found),
            models=len(first.test),
            training_rows=first.facts["training_rows"],
            bound=epsilon_bound(taken),
            equivalent=None
            if same
            else equivalence_over_seeds(
                [a.test.tolist() for a, _ in pairs], [b.test.tolist() for _, b in pairs]
            ),
            constraint=_mean_use([each.facts.get("constraint") for each in own]),
            leaks=tuple(each.auc[U_LIRA].auc for each in found if U_LIRA in each.auc),
        )


def _mean_use(found: Sequence[Mapping[str, Any] | None]) -> ConstraintUse | None:
    """The mean over seeds; None if a seed has none."""
    known = [ConstraintUse(**each) for each in found if each is not None]
    if len(known) < len(found):
        return None
    return ConstraintUse(
        fmean(each.active for each in known),
        fmean(each.at_maximum for each in known),
        known[0].iterations,
    )


def _percent(rates: Sequence[Floats]) -> Spread | None:
    return Spread.of([100 * float(each.mean()) for each in rates]) if len(rates[0]) else None
