"""One figure of an audit: a model's value beside that of models that never saw the rows.

No value is judged by itself. Retrain, the same model trained anew without the forgotten rows, is
the target: its mean over independent seeds, and their standard deviation as the unit of the gap.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Any

_ROUNDING = 1e-12  # a standard deviation below it is no unit


class Status(Enum):
    """Whether a figure may be read."""

    OK = "ok"
    NOT_RUN = "not_run"
    INSUFFICIENT = "insufficient_n"


class Direction(Enum):
    """Where a figure should lie."""

    RETRAIN = "retrain"  # as near to Retrain's as can be, on either side
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured on one model, before it is put beside Retrain.

    Attributes:
        value: None where it was not run or is not defined.
        n: rows, or whatever was counted.
        ci95: 95 % interval of the value for this model, over its rows.
        least: with fewer than so many the value is printed, but supports nothing.
        note: why there is no value, or what must be known to read it.
    """

    value: float | None
    n: int
    ci95: tuple[float, float] | None = None
    direction: Direction = Direction.RETRAIN
    least: int = 1
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value and its Retrain column; gaps are value less Retrain's mean."""

    name: str
    value: float | None
    ci95: tuple[float, float] | None
    retrain_mean: float | None
    retrain_sd: float | None
    gap: float | None
    gap_in_sd: float | None
    n: int
    direction: Direction
    status: Status
    note: str

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        words = {"direction": self.direction.value, "status": self.status.value}
        return asdict(self) | words | {"ci95": list(self.ci95) if self.ci95 else None}


def beside(name: str, measured: Measured, retrains: Sequence[float]) -> Figure:
    """Put a value beside those of independent Retrains; their spread needs two of them."""
    mean = fmean(retrains) if retrains else None
    spread = stdev(retrains) if len(retrains) > 1 else None
    value = measured.value
    gap = None if value is None or mean is None else value - mean
    unit = spread if spread and spread > _ROUNDING else None
    return Figure(
        name=name,
        value=value,
        ci95=measured.ci95,
        retrain_mean=mean,
        retrain_sd=spread,
        gap=gap,
        gap_in_sd=gap / unit if gap is not None and unit else None,
        n=measured.n,
        direction=measured.direction,
        status=_status(measured, mean),
        note=measured.note,
    )


def table(
    measured: Mapping[str, Mapping[str, Measured]], retrains: Sequence[str]
) -> dict[str, list[Figure]]:
    """Every figure of every model beside the independent ``retrains``.

    A Retrain is put beside the others: what two models that never saw the rows differ by.
    """
    return {
        model: [
            beside(name, each, _column(measured, name, [r for r in retrains if r != model]))
            for name, each in figures.items()
        ]
        for model, figures in measured.items()
    }


def canonical(figures: Mapping[str, Sequence[Figure]]) -> bytes:
    """Canonical JSON, whose digest can stand in a receipt.

    Raises:
        ValueError: a number is not finite.
    """
    content = {model: [each.plain() for each in some] for model, some in figures.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{text}\n".encode()


def _column(
    measured: Mapping[str, Mapping[str, Measured]], name: str, retrains: Sequence[str]
) -> list[float]:
    found = [measured[retrain][name].value for retrain in retrains if name in measured[retrain]]
    return [value for value in found if value is not None]


def _status(measured: Measured, retrain: float | None) -> Status:
    if measured.value is None or retrain is None:
        return Status.NOT_RUN
    return Status.OK if measured.n >= measured.least else Status.INSUFFICIENT
