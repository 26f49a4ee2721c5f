"""Comparison of a request's metrics with Retrain: reference, spread and result.

The reference of a metric is the mean of the metric over the independent Retrain models. The spread
is the standard deviation of the metric over these models, whose seeds differ. The report also gives
each gap to the reference as a multiple of the spread. A metric of the delivered model is best if it
equals the reference; a value below the reference is not better.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from statistics import fmean, stdev
from typing import Any, TypeAlias

from parties.report.method_names import is_independent_retrain

Record: TypeAlias = Mapping[str, Any]  # a part of metrics.json

METHODS = {
    "original": ("Original", "before forgetting"),
    "fedora": ("FedORA", "fine-tuned under a forgetting constraint"),
    "newton-cg": ("Newton-CG", "Newton steps to the optimum of the remaining rows"),
    "sharded": ("Sharded", "shards with forgotten rows are retrained"),
    "fine-tune": ("Fine-tune", "on the remaining rows"),
    "gradient-ascent": ("Gradient ascent", "on the loss of the forgotten rows"),
    "relabel": ("Relabel", "wrong labels for the forgotten rows"),
    "top-only": ("Top only", "a new top model; the bottom models stay"),
    "shrink-perturb": ("Shrink-perturb", "mixed with new random weights, then fine-tuned"),
    "ico-like": ("ICO-like", "one gradient subtracted; reimplemented from its description"),
    "cvfu": ("CVFU", "gradient steps on a cached sum of votes"),
    "retrain": ("Retrain", "from scratch, without the forgotten rows"),
    "retrain-2": ("Retrain, 2nd", "another seed"),
    "retrain-3": ("Retrain, 3rd", "another seed"),
    "retrain-paired": ("Retrain, paired", "the original's seed"),
}


class MeasureKind(Enum):
    """Kind of a metric: fraction of rows, attack score, or JS ratio."""

    SHARE = "share"  # share of rows; gaps are in percentage points
    SCORE = "score"  # score of an attack; 0.5 is chance
    RATIO = "ratio"  # JS ratio; Retrain is 1 by definition


@dataclass(frozen=True, slots=True)
class Measure:
    """One column of the method table.

    Attributes:
        group: heading over several columns.
        short: short heading, for the terminal.
        path: nested keys of the metric in the record of a method.
        of_forgetting: whether the metric measures forgetting (true) or utility (false).
    """

    group: str
    title: str
    short: str
    path: tuple[str, ...]
    kind: MeasureKind
    of_forgetting: bool = False


ACCURACY, ATTACK, DISTANCE = "Accuracy", "Membership attack", "JS ratio to Retrain"
TEST_ACCURACY = Measure(
    ACCURACY, "test rows", "test\nacc.", ("accuracy", "test"), MeasureKind.SHARE
)
REMAINING_CLASSES = Measure(
    ACCURACY,
    "test, remaining classes",
    "other\nacc.",
    ("accuracy", "test_remaining_classes"),
    MeasureKind.SHARE,
)
FORGOTTEN_RATIO = Measure(
    DISTANCE,
    "forgotten rows",
    "JS\nforget",
    ("divergence", "forgotten", "ratio"),
    MeasureKind.RATIO,
    True,
)
MEASURES = (
    TEST_ACCURACY,
    REMAINING_CLASSES,
    Measure(
        ACCURACY,
        "forgotten rows",
        "forget\nacc.",
        ("accuracy", "forgotten"),
        MeasureKind.SHARE,
        True,
    ),
    Measure(
        ATTACK,
        "balanced accuracy",
        "attack\nbal.",
        ("membership", "balanced_accuracy"),
        MeasureKind.SCORE,
        True,
    ),
    Measure(ATTACK, "AUC", "attack\nAUC", ("membership", "auc"), MeasureKind.SCORE, True),
    FORGOTTEN_RATIO,
    Measure(
        DISTANCE,
        "remaining rows",
        "JS\nremain",
        ("divergence", "retained", "ratio"),
        MeasureKind.RATIO,
    ),
    Measure(DISTANCE, "test rows", "JS\ntest", ("divergence", "test", "ratio"), MeasureKind.RATIO),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """Mean and standard deviation of a metric over the Retrain models.

    If there is only one Retrain model, ``spread``, the standard deviation, is None.
    """

    mean: float
    spread: float | None
    seeds: int


class ComparisonResult(Enum):
    """Result of a request: how close the delivered model is to Retrain on the forgotten rows."""

    REACHED = "On the forgotten rows as near to a Retrain as another Retrain"
    NEARER = "Nearer to a Retrain than the original, but farther than another Retrain"
    NO_NEARER = "No nearer to a Retrain than the original"
    UNINFORMATIVE = "Proves nothing here: the original is as near to a Retrain as another Retrain"
    UNKNOWN = "Not compared with a Retrain"
    GUARANTEED = "Guaranteed by the method, not measured: see the figures of the guarantee"


def table_measures(request: Record) -> list[Measure]:
    """Return the metrics that are columns of the method table.

    The accuracy on the remaining classes is included only if a whole class was forgotten.
    """
    some = any(
        nested_value(method, *REMAINING_CLASSES.path) is not None for method in request["methods"]
    )
    return [measure for measure in MEASURES if some or measure is not REMAINING_CLASSES]


def nested_value(record: Record | None, *path: str) -> Any:
    """Return the value at the nested keys ``path``; None if a key of the path is absent."""
    value: Any = record
    for key in path:
        value = None if value is None else value.get(key)
    return value


def method_title(name: str) -> str:
    """Return the title of the method ``name``; an unknown name is returned unchanged."""
    return METHODS.get(name, (name, ""))[0]


def ordered_methods(request: Record) -> list[Record]:
    """Return the records of all methods in table order.

    The original model is first, and the delivered method is second. Methods without a display title
    are last.
    """
    first = ["original", delivered_method(request)]
    order = [*first, *(name for name in METHODS if name not in first)]
    return sorted(
        request["methods"],
        key=lambda method: order.index(method["name"]) if method["name"] in order else len(order),
    )


def method_figure(request: Record, name: str, *path: str) -> Any:
    """Return one metric of the method ``name``; None if the method or the metric is absent."""
    method = next((method for method in request["methods"] if method["name"] == name), None)
    return nested_value(method, *path)


def delivered_method(request: Record) -> str:
    """Return the name of the method whose model was delivered."""
    name: str = request["method"]
    return name


def retrain_reference(request: Record, path: tuple[str, ...]) -> Reference | None:
    """Return a metric's mean and spread over the Retrain models; None if the metric is absent."""
    values = _at_retrains(request, path)
    if not values:
        return None
    return Reference(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def largest_retrain_ratio(request: Record) -> float:
    """Return the largest JS ratio of the Retrain models on the forgotten rows, but at least 1."""
    return max([1.0, *_at_retrains(request, FORGOTTEN_RATIO.path)])


def _at_retrains(request: Record, path: tuple[str, ...]) -> list[float]:
    """Return the values of a figure over the independent Retrains; absent values are left out."""
    names = [
        method["name"] for method in request["methods"] if is_independent_retrain(method["name"])
    ]
    return [value for name in names if (value := method_figure(request, name, *path)) is not None]


def comparison_result(request: Record) -> ComparisonResult:
    """Return the result of a request; JS ratios are compared after rounding to one decimal."""
    before = method_figure(request, "original", *FORGOTTEN_RATIO.path)
    after = method_figure(request, delivered_method(request), *FORGOTTEN_RATIO.path)
    if _is_guaranteed(request):
        return ComparisonResult.GUARANTEED
    if after is None or before is None:
        return ComparisonResult.UNKNOWN
    near = round(largest_retrain_ratio(request), 1)
    if round(before, 1) <= near:
        return ComparisonResult.UNINFORMATIVE
    if round(after, 1) <= near:
        return ComparisonResult.REACHED
    return (
        ComparisonResult.NEARER
        if round(after, 1) < round(before, 1)
        else ComparisonResult.NO_NEARER
    )


def _is_guaranteed(request: Record) -> bool:
    """Return whether the delivered method is exact, or its certificate reached the agreed bound."""
    facts = method_figure(request, delivered_method(request), "facts")
    bound = nested_value(facts, "certificate", "bound")
    reached = bound is not None and bound <= nested_value(facts, "certificate", "wanted")
    return reached or nested_value(facts, "sharding") is not None


def original_meets(request: Record, measure: Measure) -> bool | None:
    """Return whether a metric of the original model is near the Retrain models; None if unknown.

    The metric is near if it differs from the mean of the Retrain models by at most two standard
    deviations of the Retrain models. A JS ratio is near if it is at most the largest ratio of the
    Retrain models, after both ratios are rounded to one decimal. An attack score is also near if
    the confidence interval of the original model's AUC contains the mean AUC of the Retrain models.
    """
    before = method_figure(request, "original", *measure.path)
    if measure.kind is MeasureKind.RATIO:
        return (
            None if before is None else round(before, 1) <= round(largest_retrain_ratio(request), 1)
        )
    at_retrain = retrain_reference(request, measure.path)
    if before is None or at_retrain is None or at_retrain.spread is None:
        return None
    near = abs(before - at_retrain.mean) <= 2 * at_retrain.spread
    return near or (measure.kind is MeasureKind.SCORE and _interval_contains_retrain(request))


def _interval_contains_retrain(request: Record) -> bool:
    interval = method_figure(request, "original", "membership", "interval")
    at_retrain = retrain_reference(request, ("membership", "auc"))
    return bool(interval and at_retrain and interval[0] <= at_retrain.mean <= interval[1])
