"""The record of a forgetting study: measured populations and rows are merged into it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from configs.errors import ConfigError
from parties.common.json_codec import from_json_value
from parties.experiments.population.plan import ORIGINAL, Population, Study
from parties.experiments.population.summary import NULL, PopulationSummary
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

    def require(self, study: Study, chosen: Sequence[Population], rows: Sequence[str]) -> None:
        """Refuse to measure only some rows of a population whose other rows are not recorded.

        Raises:
            ConfigError: a row is neither measured now nor recorded, or no row has the given name.
        """
        if not rows:
            return
        for population in chosen:
            names = [row.name for row in study.rows(population)]
            for unknown in set(rows) - set(names):
                raise ConfigError(
                    f"population {population.name!r} has no row {unknown!r}",
                    f"choose from {', '.join(names)}",
                )
            known = self.populations.get(population.name)
            recorded = {each.name for each in known.methods} if known else set()
            lacking = [name for name in names if name not in rows and name not in recorded]
            if lacking:
                raise ConfigError(
                    f"population {population.name!r}: these rows are not recorded yet: "
                    f"{', '.join(lacking)}",
                    "leave --row out, or name these rows as well",
                )

    def merged(
        self, study: Study, found: Sequence[PopulationSummary], hours: float
    ) -> "RecordedStudy":
        """Return the record with the populations and rows ``found`` in place of earlier ones."""
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
        return replace(self, populations=populations, hours=self.hours + hours)

    def content(self, measured: Provenance) -> dict[str, Any]:
        """Return the populations and hours as JSON values, with the provenance of all figures."""
        populations = [asdict(each) for each in self.populations.values()]
        return {**asdict(measured), "hours": self.hours, "populations": populations}
