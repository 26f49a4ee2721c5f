"""Comparison of a request's metrics with Retrain: reference, spread and result.

The reference of a metric is the mean of the metric over the independent Retrain models. The spread
is the standard deviation of the metric over these models, whose seeds differ. The report also gives
each gap to the reference as a multiple of the spread. A metric of the delivered model is best if it
equals the reference; a value below the reference is not better.

A result is never a bare figure. It follows from the interval in which one further Retrain model
would have its value: of all further Retrain models, also of the paired one, 2.5 % lie above it.
"""

from dataclasses import dataclass
from enum import Enum
from math import sqrt
from statistics import fmean, stdev

from parties.report.columns import (
    FORGOTTEN_RATIO,
    LOSS_AUC,
    Column,
    attack_column,
    find_figure,
    is_vertical,
    membership_interval,
    proving_columns,
)
from parties.report.method_names import ORIGINAL, is_independent_retrain, is_retrain
from parties.report.record import MethodRecord, Request
from unlearning.audit.intervals import (
    Z,
    difference_margin,
    distance_spread,
    further_value_margin,
)

_ROUNDING = 1e-12  # a smaller standard deviation cannot be a unit
# Rows by which a share of rows varies between Retrains even if all of them have the same: the
# standard deviation of a Poisson number with the mean ½, which a share of 0 of n rows stands for.
SMALLEST_SPREAD = sqrt(0.5)


@dataclass(frozen=True, slots=True)
class Reference:
    """Mean and standard deviation of a metric over the Retrain models.

    ``spread``, the standard deviation over models, is None if there are too few Retrain models:
    fewer than two, or for a distance from the Retrains fewer than three.
    """

    mean: float
    spread: float | None
    seeds: int
    rows: int | None = None  # number of rows, if the metric counts rows

    def in_spreads(self, value: float) -> float | None:
        """Return the gap of ``value`` in standard deviations; None without a deviation."""
        if self.spread is None or self.spread <= _ROUNDING:
            return None
        return (value - self.mean) / self.spread

    @property
    def margin(self) -> float | None:
        """How far a further Retrain may lie from the mean; None without a deviation."""
        if self.spread is None:
            return None
        least = self._least * sqrt(1 + 1 / self.seeds)
        return max(further_value_margin(self.spread, self.seeds), least)

    @property
    def difference(self) -> float:
        """How far one model without a fault may lie above another; 0 without a deviation."""
        return max(difference_margin(self.spread or 0.0, self.seeds), self._least * sqrt(2))

    @property
    def judges(self) -> bool:
        """Whether a model can be judged: the Retrains differ, or the rows say by how much."""
        return self.spread is not None and (self.spread > _ROUNDING or self.rows is not None)

    @property
    def _least(self) -> float:
        """What the rows of a share leave open, however equal the Retrains are."""
        return Z * SMALLEST_SPREAD / self.rows if self.rows else 0.0


class ComparisonResult(Enum):
    """Result of a request: how close the delivered model is to Retrain on the forgotten rows."""

    REACHED = "On the forgotten rows within the interval of another Retrain"
    NEARER = "Nearer to a Retrain than the original, but outside the interval of another Retrain"
    NO_NEARER = "Not clearly nearer to a Retrain than the original"
    UNINFORMATIVE = "Proves nothing here: the original is within the interval of another Retrain"
    UNDECIDED = "Not decided: the interval of another Retrain needs three independent Retrains"
    UNKNOWN = "Not compared with a Retrain"
    GUARANTEED = "Guaranteed by the method, not by a measurement"


def find_method(request: Request, name: str) -> MethodRecord | None:
    """Return the method ``name`` of a request; None if it is absent."""
    return next((each for each in request.methods if each.name == name), None)


def method_title(request: Request, name: str | None = None) -> str:
    """Return the title of the method ``name``, or of the method whose model was delivered."""
    found = find_method(request, name or request.chosen)
    return name or request.chosen if found is None else found.title


def chosen_method(request: Request) -> MethodRecord | None:
    """Return the method whose model was delivered; None if no method ran."""
    return find_method(request, request.chosen)


def method_value(request: Request, name: str, column: Column) -> float | None:
    """Return the value of the method ``name``; None if the method or the value is absent."""
    method = find_method(request, name)
    return None if method is None else column.value(method)


def ordered_methods(request: Request) -> list[MethodRecord]:
    """Return all methods in table order: the original, the delivered one, others, Retrains."""
    first = (ORIGINAL, request.chosen)

    def place(method: MethodRecord) -> int:
        return first.index(method.name) if method.name in first else 2 + is_retrain(method.name)

    return sorted(request.methods, key=place)


def retrain_reference(request: Request, column: Column) -> Reference | None:
    """Return a metric's mean and spread over the Retrain models; None if no model has a value.

    A Retrain's distance is measured to the other Retrains, so the distances of the Retrains vary
    less than the distance of a further Retrain; the spread of a distance is corrected for this.
    """
    values = _at_retrains(request, column)
    if not values:
        return None
    if column.distance:
        spread = distance_spread(values)
    else:
        spread = stdev(values) if len(values) > 1 else None
    return Reference(fmean(values), spread, len(values), _rows_of_share(request, column))


def _rows_of_share(request: Request, column: Column) -> int | None:
    """Return the number of rows that a column counts; None if it counts none."""
    part, name = column.source
    if not column.counted:
        return None
    if part == "accuracy":
        count = getattr(request.rows, name, None)
        return count if isinstance(count, int) else None
    figures = (find_figure(each, name) for each in request.methods)
    return max((each.n for each in figures if each is not None), default=0) or None


def largest_ratio(request: Request) -> float | None:
    """Return the largest ratio of distances of a further Retrain on the forgotten rows.

    It is the upper end of an interval, which 2.5 % of all further Retrains exceed. The result is
    None with fewer than three independent Retrains.
    """
    at_retrain = retrain_reference(request, FORGOTTEN_RATIO)
    if at_retrain is None or at_retrain.margin is None:
        return None
    return at_retrain.mean + at_retrain.margin


def _at_retrains(request: Request, column: Column) -> list[float]:
    """Return the values of a metric over the independent Retrains; absent values are left out."""
    retrains = [each for each in request.methods if is_independent_retrain(each.name)]
    return [value for each in retrains if (value := column.value(each)) is not None]


def comparison_result(request: Request) -> ComparisonResult:
    """Return the result of a request, which follows from the ratios of distances on forgotten rows.

    The original and the delivered model are compared with the interval of a further Retrain. The
    delivered model is nearer than the original if their difference is larger than that of two
    Retrains would be.
    """
    before = method_value(request, ORIGINAL, FORGOTTEN_RATIO)
    after = method_value(request, request.chosen, FORGOTTEN_RATIO)
    at_retrain = retrain_reference(request, FORGOTTEN_RATIO)
    if _is_guaranteed(request):
        return ComparisonResult.GUARANTEED
    if after is None or before is None or at_retrain is None:
        return ComparisonResult.UNKNOWN
    if at_retrain.spread is None or at_retrain.margin is None:
        return ComparisonResult.UNDECIDED
    limit = at_retrain.mean + at_retrain.margin
    if before <= limit:
        return ComparisonResult.UNINFORMATIVE
    if after <= limit:
        return ComparisonResult.REACHED
    nearer = before - after > at_retrain.difference
    return ComparisonResult.NEARER if nearer else ComparisonResult.NO_NEARER


def _is_guaranteed(request: Request) -> bool:
    """Return whether the delivered method is exact, or its certificate reached the agreed bound."""
    method = chosen_method(request)
    if method is None or method.diverged:
        return False
    certificate = method.details.get("certificate")
    reached = certificate is not None and certificate["bound"] <= certificate["wanted"]
    return reached or method.guarantee == "exact" or method.details.get("sharding") is not None


def original_meets(request: Request, column: Column) -> bool | None:
    """Return whether a metric of the original model is near the Retrain models; None if unknown.

    The metric is near if it lies in the interval in which a further Retrain model would lie; a
    distance has no lower limit. In the vertical mode, a score of the membership attack is also
    near if the confidence interval of the original model's AUC contains the mean AUC of the
    Retrain models.
    """
    before = method_value(request, ORIGINAL, column)
    at_retrain = retrain_reference(request, column)
    if before is None or at_retrain is None or at_retrain.margin is None or not at_retrain.judges:
        return None
    gap = before - at_retrain.mean
    near = (gap if column.distance else abs(gap)) <= at_retrain.margin
    attacks = column.source[0] == "membership" or column is LOSS_AUC
    return near or (attacks and _interval_contains_retrain(request))


def _interval_contains_retrain(request: Request) -> bool:
    original = find_method(request, ORIGINAL)
    interval = None if original is None else membership_interval(original)
    at_retrain = retrain_reference(request, attack_column(request))
    return bool(interval and at_retrain and interval[0] <= at_retrain.mean <= interval[1])


def result_sentence(request: Request) -> str:
    """Return the result of a request as one phrase, without a full stop."""
    method = chosen_method(request)
    if method is not None and method.diverged:
        return "Not carried out"
    if is_vertical(request):
        return comparison_result(request).value
    if request.members is not None and not request.members.leaving:
        return "Nothing to forget: no client had such rows"
    retrains = sum(is_retrain(each.name) for each in request.methods)
    if not retrains:
        return f"{method_title(request)}, not compared with a Retrain"
    plural = "" if retrains == 1 else "s"
    return f"{method_title(request)}, compared with {retrains} Retrain{plural}"


def first_proof(request: Request) -> Column | None:
    """Return the first column that can show forgetting; None if no column can."""
    columns = proving_columns(request)
    return next((each for each in columns if original_meets(request, each) is False), None)
