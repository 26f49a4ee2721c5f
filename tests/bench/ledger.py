"""The rows of the records in ``docs``: the measured value, its limit, and whether it holds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.pairs import PairedRatio
from bench.scopes import SECTIONS

from parties.experiments.bench.record import merge_rows
from parties.experiments.provenance import ROOT, Provenance


@dataclass(frozen=True, slots=True)
class Row:
    """One figure; ``ok`` is None if it has no limit.

    A ratio that was measured in pairs has its quartiles in ``spread`` and the number of ``pairs``.
    """

    name: str
    value: float | str
    unit: str
    wanted: str = ""
    ok: bool | None = None
    spread: tuple[float, float] | None = None
    pairs: int | None = None


def at_most(name: str, value: float | PairedRatio, limit: float, unit: str) -> Row:
    """Return a figure with an upper limit."""
    return _limited(name, value, f"at most {limit:g}", unit, _number(value) <= limit)


def at_least(name: str, value: float | PairedRatio, limit: float, unit: str) -> Row:
    """Return a figure with a lower limit."""
    return _limited(name, value, f"at least {limit:g}", unit, _number(value) >= limit)


def below(name: str, value: float, other: float, whose: str, unit: str) -> Row:
    """Return a figure that must be smaller than another figure of the same run."""
    return Row(name, value, unit, f"below {whose} ({other:.3g})", value < other)


def shown(name: str, value: float | str | PairedRatio, unit: str) -> Row:
    """Return a figure without limit."""
    return _limited(name, value, "", unit, None)


def _number(value: float | PairedRatio) -> float:
    return value.median if isinstance(value, PairedRatio) else value


def _limited(
    name: str, value: float | str | PairedRatio, wanted: str, unit: str, ok: bool | None
) -> Row:
    if isinstance(value, PairedRatio):
        return Row(name, value.median, unit, wanted, ok, (value.low, value.high), value.pairs)
    return Row(name, value, unit, wanted, ok)


def store(section: str, rows: Sequence[Row], origin: Provenance, root: Path = ROOT) -> None:
    """Replace the rows of a section in its record, with commit, machine and digest of the code."""
    measured = [
        {name: value for name, value in asdict(row).items() if name in _ALWAYS or value is not None}
        for row in rows
    ]
    merge_rows(root / SECTIONS[section].path, section, measured, origin)


_ALWAYS = ("name", "value", "unit", "wanted", "ok")
