"""The recorded figures, and which of them are stale: measured before a change of their code."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from bench.scopes import SECTIONS, Section

from parties.experiments.provenance import ROOT, Provenance, code_digest

MARK = "measured before changes since"  # stands with the commits beside stale figures on pages


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """A row of a record."""

    name: str
    section: str
    value: float | str
    unit: str
    wanted: str
    ok: bool | None
    provenance: Provenance
    spread: tuple[float, float] | None
    pairs: int | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """The row of its JSON object."""
        spread = row.get("spread")
        return cls(
            *(row[name] for name in ("name", "section", "value", "unit", "wanted", "ok")),
            _provenance(row),
            (spread[0], spread[1]) if spread else None,
            row.get("pairs"),
        )


@dataclass
class Records:
    """All rows below a root folder by name, and the digests of the present code."""

    root: Path
    sections: Mapping[str, Section]
    rows: dict[str, RecordedRow]
    codes: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, root: Path = ROOT, sections: Mapping[str, Section] = SECTIONS) -> Self:
        """Read all records.

        Raises:
            ValueError: two rows have one name.
        """
        paths = sorted({root / each.path for each in sections.values()})
        found = [
            RecordedRow.of(row)
            for path in paths
            if path.exists()
            for row in json.loads(path.read_text()).get("rows", ())
        ]
        rows = {each.name: each for each in found}
        if len(rows) < len(found):
            names = [each.name for each in found]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"two rows of one name: {', '.join(twice)}; rename one of them")
        return cls(root, sections, rows)

    def of_section(self, section: str) -> list[RecordedRow]:
        """The rows of a section."""
        return [each for each in self.rows.values() if each.section == section]

    def origins(self, section: str) -> list[Provenance]:
        """The provenance of each row of a section, or of its record if it has no rows."""
        if rows := self.of_section(section):
            return [each.provenance for each in rows]
        path = self.root / self.sections[section].path
        content = json.loads(path.read_text()) if path.exists() else {}
        return [_provenance(content)] if "code" in content else []

    def is_stale(self, section: str, origin: Provenance) -> bool:
        """Whether the code of a section has changed since a measurement, or may have."""
        if section not in self.codes:
            self.codes[section] = code_digest(self.sections[section].scope, self.root)
        return not origin.code or origin.code != self.codes[section]

    def stale_commits(self, section: str, origins: Iterable[Provenance]) -> list[str]:
        """The commits of the stale measurements among these, each once."""
        return list(
            dict.fromkeys(
                commit
                for each in origins
                if self.is_stale(section, each)
                for commit in (each.commit or "an unknown commit").split(", ")
            )
        )

    def stale_reason(self, section: str) -> str:
        """Why a section has to be measured; empty if it need not be."""
        origins = self.origins(section)
        if not origins:
            return "never measured"
        commits = self.stale_commits(section, origins)
        return f"its code has changed since {', '.join(commits)}" if commits else ""

    def stale_sections(
        self, names: Iterable[str], report: Callable[[str], object]
    ) -> Iterator[str]:
        """Yield the sections that have to be measured; report each section with the reason."""
        for name in names:
            if reason := self.stale_reason(name):
                report(f"measures {name}: {reason}")
                yield name
            else:
                report(f"skips {name}: {self.fresh_reason(name)}")

    def fresh_reason(self, section: str) -> str:
        """Why a section need not be measured."""
        commits = dict.fromkeys(each.commit for each in self.origins(section))
        return f"measured at {', '.join(commits)}, and its code has not changed"


def _provenance(content: Mapping[str, Any]) -> Provenance:
    return Provenance(content["commit"], content["machine"], content["code"])
