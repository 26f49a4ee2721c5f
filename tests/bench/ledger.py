"""The rows of ``docs/bench.json``: the measured value, its limit, and whether it holds."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from parties.common.libraries import library_versions

LIBRARIES = ("vfl", "torch", "numpy", "scikit-learn", "grpcio", "protobuf", "cryptography")


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; ``ok`` is None if it has no limit."""

    name: str
    value: float | str
    unit: str
    wanted: str = ""
    ok: bool | None = None


def at_most(name: str, value: float, limit: float, unit: str) -> Row:
    """Return a figure with an upper limit."""
    return Row(name, value, unit, f"at most {limit:g}", value <= limit)


def at_least(name: str, value: float, limit: float, unit: str) -> Row:
    """Return a figure with a lower limit."""
    return Row(name, value, unit, f"at least {limit:g}", value >= limit)


def below(name: str, value: float, other: float, whose: str, unit: str) -> Row:
    """Return a figure that must be smaller than another figure of the same run."""
    return Row(name, value, unit, f"below {whose} ({other:.3g})", value < other)


def shown(name: str, value: float | str, unit: str) -> Row:
    """Return a figure without limit."""
    return Row(name, value, unit)


def write(measured: Mapping[str, Sequence[Row]], path: Path) -> None:
    """Write the figures with machine, versions and date; keep all other sections."""
    before = json.loads(path.read_text()) if path.exists() else {"rows": [], "sections": {}}
    old = {row["name"]: row for row in before["rows"]}
    sections = {
        name: [old[title] for title in titles] for name, titles in before["sections"].items()
    }
    sections |= {name: [asdict(row) for row in rows] for name, rows in measured.items()}
    content = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "versions": library_versions(LIBRARIES) | {"python": platform.python_version()},
        "sections": {name: [row["name"] for row in rows] for name, rows in sections.items()},
        "rows": [row for rows in sections.values() for row in rows],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
