"""A metric of an audit: a model's value, compared with the values of Retrain models.

A value is never judged on its own. The target is Retrain, the same model trained again without the
forgotten rows. A value is judged by the gap between the value and Retrain's mean over independent
seeds. The gap is measured in standard deviations over these seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Any

_ROUNDING = 1e-12  # a smaller standard deviation cannot be a unit


class Status(Enum):
    """Whether a metric can be interpreted."""

    OK = "ok"
    NOT_RUN = "not_run"
    INSUFFICIENT = "insufficient_n"


class Direction(Enum):
    """Which values of a metric are good."""

    RETRAIN = "retrain"  # near Retrain's value, on either side
    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value measured on one model, before it is compared with Retrain."""

    value: float | None  # the measured value; None if the value was not measured or is not defined
    n: int  # number of rows, or of other items, from which the value was computed
    # 95 % confidence interval of the value for this model, over the rows.
    ci95: tuple[float, float] | None = None
    direction: Direction = Direction.RETRAIN
    # Smallest n that supports a conclusion; with a smaller n the value is only printed.
    least: int = 1
    note: str = ""  # why there is no value, or a remark for interpreting the value


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A measured value compared with Retrain's mean; a gap is the value minus Retrain's mean."""

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
        """Return the metric as a dictionary from field names to JSON values."""
        words = {"direction": self.direction.value, "status": self.status.value}
        return asdict(self) | words | {"ci95": list(self.ci95) if self.ci95 else None}


def compare_with_retrains(
    name: str, measured: Measurement, retrains: Sequence[float] | None
) -> Metric:
    """Return the metric that compares a value with the values of independent Retrain models.

    Without two or more Retrain models, the standard deviation and the gap in standard deviations
    are None. ``retrains`` is None if no Retrain was trained: the value then stands alone. If it is
    empty, Retrains were trained, but none has a value, so that the metric has the status
    ``NOT_RUN``.
    """
    mean = fmean(retrains) if retrains else None
    spread = stdev(retrains) if retrains and len(retrains) > 1 else None
    value = measured.value
    gap = None if value is None or mean is None else value - mean
    unit = spread if spread and spread > _ROUNDING else None
    return Metric(
        name=name,
        value=value,
        ci95=measured.ci95,
        retrain_mean=mean,
        retrain_sd=spread,
        gap=gap,
        gap_in_sd=gap / unit if gap is not None and unit else None,
        n=measured.n,
        direction=measured.direction,
        status=_status(measured, compared=retrains is None or mean is not None),
        note=measured.note,
    )


def metric_table(
    measured: Mapping[str, Mapping[str, Measurement]], retrains: Sequence[str]
) -> dict[str, list[Metric]]:
    """Return the metrics of each model, compared with the models named ``retrains``.

    ``measured`` maps the name of each model, and then the name of each metric, to a measurement.
    Each Retrain model is compared with the other Retrain models, so its gap is a difference between
    models that were not trained on the forgotten rows. Without ``retrains`` the values stand alone.
    """
    return {
        model: [
            compare_with_retrains(
                name, each, _column(measured, name, model, retrains) if retrains else None
            )
            for name, each in metrics.items()
        ]
        for model, metrics in measured.items()
    }


def _column(
    measured: Mapping[str, Mapping[str, Measurement]],
    name: str,
    model: str,
    retrains: Sequence[str],
) -> list[float]:
    """The values of the metric ``name`` at all ``retrains`` except ``model``."""
    others = [each for each in retrains if each != model]
    found = [measured[other][name].value for other in others if name in measured[other]]
    return [value for value in found if value is not None]


def _status(measured: Measurement, *, compared: bool) -> Status:
    if measured.value is None or not compared:
        return Status.NOT_RUN
    return Status.OK if measured.n >= measured.least else Status.INSUFFICIENT
