"""The record of a forgetting study: measured populations and rows are merged into it."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from configs.errors import ConfigError
from parties.common.json_codec import from_json_value
from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.plan import ORIGINAL, RETRAIN, Population, Study
from parties.experiments.population.summary import NULL, MeasurementKey, PopulationSummary
from parties.experiments.provenance import Provenance


@dataclass(frozen=True, slots=True)
class RecordedStudy:
    """What a record holds of a study."""

    populations: Mapping[str, PopulationSummary] = field(default_factory=dict)  # by name
    measured: Sequence[Provenance] = ()  # of the figures; empty without a record
    hours: float = 0.0  # that the methods took, without the training of the models

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a record; without a file, nothing is recorded.

        Raises:
            ConfigError: the file is no record of a study.
        """
        if not path.exists():
            return cls()
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = [
                from_json_value(PopulationSummary, each, {}) for each in content["populations"]
            ]
            provenance = Provenance(content["commit"], content["machine"], content["code"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"{path} is not the record of a forgetting study: {error}",
                "choose another folder with --docs, or move the file away",
            ) from error
        by_name = {each.name: each for each in found}
        return cls(by_name, [provenance], content.get("hours", 0.0))

    def require(
        self, study: Study, chosen: Sequence[Population], rows: Sequence[str], seeds: int
    ) -> None:
        """Refuse a measurement that would make the rows of a table differ in their seeds.

        Args:
            study: the study.
            chosen: the populations to measure.
            rows: names of the rows to measure; empty: all.
            seeds: number of seeds to measure.

        Raises:
            ConfigError: a row is neither measured now nor recorded; no row has the given name; or
                a row is recorded with more seeds, or stays with another number of seeds.
        """
        for population in chosen:
            names = [row.name for row in study.rows(population)]
            for unknown in set(rows) - set(names):
                raise ConfigError(
                    f"population {population.name!r} has no row {unknown!r}",
                    f"choose from {', '.join(names)}",
                )
            known = self.populations.get(population.name)
            methods = known.methods if known else []
            recorded = {each.name: each.auc[U_LIRA].seeds for each in methods if each.name in names}
            staying = [name for name in names if rows and name not in rows]
            if lacking := [name for name in staying if name not in recorded]:
                raise ConfigError(
                    f"population {population.name!r}: these rows are not recorded yet: "
                    f"{', '.join(lacking)}",
                    "leave --row out, or name these rows as well",
                )
            _require_seeds(population.name, recorded, staying, seeds)

    def new_hours(
        self, seconds: Mapping[MeasurementKey, float], computed: Collection[MeasurementKey]
    ) -> float:
        """Return the hours of the measurements that are not counted in the record yet.

        ``seconds`` are those of all measurements. One is counted if it was ``computed`` by this
        command, or if its row is not recorded: then an earlier command computed it, and ended
        before it wrote the record.
        """
        new = [
            each
            for (population, seed, row), each in seconds.items()
            if (population, seed, row) in computed or not self._has(population, row)
        ]
        return sum(new) / 3600

    def _has(self, population: str, row: str) -> bool:
        known = self.populations.get(population)
        name = NULL if row == RETRAIN.name else row
        return known is not None and any(each.name == name for each in known.methods)

    def merged(
        self,
        study: Study,
        found: Sequence[PopulationSummary],
        hours: float,
        measured: Sequence[Provenance],
    ) -> "RecordedStudy":
        """Return the record with the populations and rows ``found`` in place of earlier ones.

        The recorded provenance is of all rows together; it is kept as long as one of them stays.

        Args:
            study: the study.
            found: what is measured.
            hours: that are added to the recorded hours.
            measured: provenance of the rows in ``found``.
        """
        new = {each.name: each for each in found}
        populations = {}
        for each in study.population:
            names = [NULL, ORIGINAL.name, *(row.name for row in study.rows(each))]
            parts = [self.populations.get(each.name), new.get(each.name)]
            known = [part for part in parts if part is not None]
            methods = {own.name: own for part in known for own in part.methods}
            if known:
                rows = [methods[name] for name in names if name in methods]
                populations[each.name] = replace(known[-1], methods=rows)
        own = {id(row) for each in found for row in each.methods}
        stays = any(id(row) not in own for each in populations.values() for row in each.methods)
        origins = [*(self.measured if stays else ()), *measured]
        return RecordedStudy(populations, origins, self.hours + hours)

    def content(self, measured: Provenance) -> dict[str, Any]:
        """Return the populations and hours as JSON values, with the provenance of all figures."""
        populations = [asdict(each) for each in self.populations.values()]
        return {**asdict(measured), "hours": self.hours, "populations": populations}


def _require_seeds(
    population: str, recorded: Mapping[str, int], staying: Collection[str], seeds: int
) -> None:
    """Refuse fewer seeds than recorded, or another number of seeds than the other rows have."""
    for name, count in recorded.items():
        if count > seeds or (name in staying and count != seeds):
            raise ConfigError(
                f"population {population!r}: the row {name!r} is recorded with {count} seeds, but "
                f"--seeds is {seeds}; all rows of a table have the same seeds",
                f"use --seeds {count}, or "
                + ("leave --row out" if count < seeds else "move the record of the study away"),
            )
