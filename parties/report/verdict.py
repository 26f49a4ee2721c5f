"""Verdict on a request in plain words, and what it means for a person whose rows were forgotten.

The verdict follows from all figures that can show forgetting: those in which the trained model lies
outside the interval in which a further Retrain model would lie (``comparison.py``). In the vertical
mode the ratio of distances on the forgotten rows decides, and the other figures qualify the
verdict. In the federated modes the worst of all figures decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parties.report.columns import (
    DIFFERENCE_RATIOS,
    FORGOTTEN_RATIO,
    LOSS_AUC,
    OTHER_COLUMNS,
    Column,
    Unit,
    attack_column,
    attacks_membership,
    decides,
    find_figure,
    is_correction,
    is_vertical,
    membership_interval,
    proving_columns,
    ratio_column,
)
from parties.report.comparison import (
    ComparisonResult,
    Reference,
    chosen_method,
    comparison_result,
    find_method,
    largest_ratio,
    method_value,
    original_meets,
    retrain_reference,
)
from parties.report.method_names import ORIGINAL, is_independent_retrain
from parties.report.quantities import format_number, format_ratio, join_words
from parties.report.record import JsonObject, MethodRecord, Request

# Results of the main figure that other figures qualify.
_QUALIFIED = (ComparisonResult.REACHED, ComparisonResult.UNINFORMATIVE)

_HEADLINES = {
    ComparisonResult.REACHED: "No difference found to a model that never had the forgotten rows",
    ComparisonResult.NEARER: "Partly forgotten: a trace of the rows can still be measured",
    ComparisonResult.NO_NEARER: "Forgetting not shown: the model is not clearly nearer to one that "
    "never had the rows",
    ComparisonResult.UNINFORMATIVE: "Nothing shown: even before the request, no figure told the "
    "model from one that never had the rows",
    ComparisonResult.UNDECIDED: "Not decided: too few Retrains to know how much two of them differ",
    ComparisonResult.UNKNOWN: "Not compared: nobody measured how far the model is from one that "
    "never had the rows",
    ComparisonResult.GUARANTEED: "Guaranteed by the method, not by a measurement",
}
_MEANINGS = {
    ComparisonResult.REACHED: "What the model answers about this person’s rows differs from the "
    "answers of a model that never had these rows by no more than two such models differ. A "
    "smaller trace, or one that the tests of this run do not look for, is not excluded.",
    ComparisonResult.NEARER: "The rows influence the model less than before, but still measurably. "
    "The person must assume that the model keeps a trace of these rows.",
    ComparisonResult.NO_NEARER: "The person must assume that the model still holds what it learned "
    "from these rows: this run does not show that the model forgot them.",
    ComparisonResult.UNINFORMATIVE: "This run is no evidence for the person in either direction. "
    "Where no trace can be measured before a request, its absence afterwards shows nothing.",
    ComparisonResult.UNDECIDED: "This run does not tell the person whether the model forgot these "
    "rows; for a decision it needs more Retrains.",
    ComparisonResult.UNKNOWN: "The method was carried out, but this run does not tell the person "
    "how much of these rows is left in the model: no model without the rows stands beside it.",
}


@dataclass(frozen=True, slots=True)
class ForgettingFigure:
    """A figure that can show forgetting, with the interval of a further Retrain."""

    column: Column
    before: float  # value of the trained model
    after: float  # value of the delivered model
    reference: Reference  # mean and spread over the Retrains
    margin: float  # how far a further Retrain may lie from the mean

    @property
    def within(self) -> bool:
        """Whether the delivered model lies in the interval of a further Retrain."""
        return self._distance(self.after) <= self.margin

    @property
    def nearer(self) -> bool:
        """Whether the delivered model is nearer to Retrain than the trained model is.

        The difference must be larger than that of two Retrains would be.
        """
        apart = self._distance(self.before) - self._distance(self.after)
        return apart > self.reference.difference

    def _distance(self, value: float) -> float:
        gap = value - self.reference.mean
        return gap if self.column.distance else abs(gap)

    @property
    def sentence(self) -> str:
        """Name and values of the figure, with the 95 % interval of a further Retrain."""
        text, mean = self.column.text, self.reference.mean
        if self.column.distance:
            limits = f"at most {text(mean + self.margin)}"
        else:
            low, high = mean - self.margin, mean + self.margin
            if self.column.unit is Unit.SHARE:
                low, high = max(0.0, low), min(1.0, high)
            limits = f"{text(low)} to {text(high)}"
        side = "inside" if self.within else "outside"
        return (
            f"{figure_name(self.column)}: {text(self.after)}, before the request "
            f"{text(self.before)}; {side} the interval in which a further Retrain lies ({limits})."
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a request, in plain words."""

    result: ComparisonResult | None  # None: no valid model was made by the request
    headline: str  # the verdict as one phrase, without a full stop
    evidence: Sequence[str]  # the figures from which it follows, with their intervals
    meaning: str  # what it means for a person whose rows were to be forgotten


def request_verdict(request: Request) -> Verdict:
    """Return the verdict on a request."""
    without = _without_model(request)
    if without is not None:
        return without
    figures = forgetting_figures(request)
    result = _result(request, figures)
    evidence = [each.sentence for each in _ordered(figures)]
    if result is ComparisonResult.UNINFORMATIVE and is_vertical(request):
        evidence.append(_ratio_sentence(request))
    if len(figures) > 1 and not all(each.within for each in figures):
        evidence.append(
            f"{len(figures)} figures were compared. Of models that never had the rows, up to one "
            "in twenty lies outside of each interval."
        )
    if attack := attack_sentence(request):
        evidence.append(attack)
    return Verdict(result, _headline(request, result, figures), evidence, _meaning(request, result))


def forgetting_figures(request: Request) -> list[ForgettingFigure]:
    """Return the figures that can show forgetting and that the delivered model has.

    A figure that is equal at all Retrains judges nothing, unless it is a share of rows.
    """
    found = []
    for column in proving_columns(request):
        before = method_value(request, ORIGINAL, column)
        after = method_value(request, request.chosen, column)
        reference = retrain_reference(request, column)
        if before is None or after is None or reference is None:
            continue
        if attacks_membership(column) and _has_few_rows(
            find_method(request, request.chosen), column
        ):
            continue
        margin = reference.margin
        if margin is None or not reference.judges:
            continue
        if original_meets(request, column) is False:
            found.append(ForgettingFigure(column, before, after, reference, margin))
    return found


def figure_name(column: Column) -> str:
    """Return the name of a column's figure, readable without the heading of its group."""
    if column in DIFFERENCE_RATIOS:
        return f"Difference to Retrain on {column.title}, in differences of two Retrains"
    if column.unit is Unit.RATIO:
        return f"Distance to Retrain on {column.title}, in distances between two Retrains"
    if column in OTHER_COLUMNS and column.group.endswith("rows"):
        return f"{column.title[0].upper()}{column.title[1:]} on {column.group.lower()}"
    if column.source[0] == "figure" and column.group == "Forgotten rows":
        return f"{column.title[0].upper()}{column.title[1:]}"
    return f"{column.group}, {column.title}"


def _ordered(figures: Sequence[ForgettingFigure]) -> list[ForgettingFigure]:
    """The figure that decides comes first, then the figures outside the interval."""
    return sorted(figures, key=lambda each: (not decides(each.column), each.within))


def _without_model(request: Request) -> Verdict | None:
    """Return the verdict on a request that changed no model; None if it changed the model."""
    method = chosen_method(request)
    empty = request.rows is not None and request.rows.forgotten == 0
    nobody = request.members is not None and not request.members.leaving
    if empty or nobody:
        return Verdict(
            None,
            "Nothing to forget: no training row belongs to the request",
            (),
            "The model never learned from rows of this person, as far as the parties’ data say; "
            "it was not changed.",
        )
    if method is not None and method.diverged:
        return Verdict(
            None,
            f"Not carried out: {method.title} gave no valid model",
            (f"{method.diverged}.",),
            "The model did not forget these rows by this request.",
        )
    if method is None:
        reason = request.skipped or "the record has no delivered model"
        return Verdict(
            None, "Not carried out", (f"{reason}.",), "The model did not forget these rows."
        )
    return None


def _result(request: Request, figures: Sequence[ForgettingFigure]) -> ComparisonResult:
    method = chosen_method(request)
    if method is not None and method.guarantee == "exact":
        return ComparisonResult.GUARANTEED
    if is_vertical(request):
        return comparison_result(request)
    retrains = _retrains(request)
    if retrains < 2:
        return ComparisonResult.UNDECIDED if retrains else ComparisonResult.UNKNOWN
    if not figures:
        undecided = any(
            original_meets(request, each) is None
            for each in proving_columns(request)
            if method_value(request, ORIGINAL, each) is not None
        )
        return ComparisonResult.UNDECIDED if undecided else ComparisonResult.UNINFORMATIVE
    outside = [each for each in figures if not each.within]
    if not outside:
        return ComparisonResult.REACHED
    nearer = all(each.nearer for each in outside)
    return ComparisonResult.NEARER if nearer else ComparisonResult.NO_NEARER


def _retrains(request: Request) -> int:
    return sum(is_independent_retrain(each.name) for each in request.methods)


def _headline(
    request: Request, result: ComparisonResult, figures: Sequence[ForgettingFigure]
) -> str:
    if result is ComparisonResult.GUARANTEED:
        return _guarantee_headline(request)
    outside = [each for each in figures if not each.within and not decides(each.column)]
    if result in _QUALIFIED and outside:
        shown = (
            "no difference to a model that never had the rows"
            if result is ComparisonResult.REACHED
            else "nothing shown"
        )
        return (
            f"By the main figure {shown}, but "
            f"{len(outside)} other {'figure differs' if len(outside) == 1 else 'figures differ'}"
        )
    return _HEADLINES[result]


def _guarantee_headline(request: Request) -> str:
    if certificate := _details(request).get("certificate"):
        if certificate["epsilon"] is not None:
            return "Certified: the released model hides the forgotten rows up to (ε, δ)"
        return "Certified: the distance to a model without the rows is bounded, not zero"
    if is_correction(request):
        return "Exact: the delivered model never learned the wrong labels"
    return "Exact: the delivered model never learned from the forgotten rows"


def _details(request: Request) -> JsonObject:
    method = chosen_method(request)
    return {} if method is None else method.details


def _meaning(request: Request, result: ComparisonResult) -> str:
    if is_correction(request):
        return (
            "The rows stay in the training, with corrected labels. The verdict is about the "
            "influence of the wrong labels only."
        )
    if result is ComparisonResult.GUARANTEED:
        meaning = _guarantee_meaning(request)
    else:
        meaning = _MEANINGS[result]
        outside = [
            each
            for each in forgetting_figures(request)
            if not each.within and not decides(each.column)
        ]
        if result in _QUALIFIED and outside:
            names = join_words([figure_name(each.column).lower() for each in outside])
            meaning = (
                f"The main figure shows no trace of this person’s rows, but other figures do "
                f"({names}). The person must assume that a trace is left."
            )
    return meaning


def _guarantee_meaning(request: Request) -> str:
    certificate = _details(request).get("certificate")
    if certificate is None:
        return (
            "The delivered model is one that training without this person’s rows gives, so it "
            "holds nothing that it learned from them. What else still depends on the rows, such as "
            "preprocessing, is listed under what is kept."
        )
    assumed = f"under these assumptions: {'; '.join(certificate['assumes'])}"
    if certificate["epsilon"] is not None:
        return (
            "Whoever sees only the released model learns at most (ε, δ) = "
            f"({certificate['epsilon']:g}, {certificate['delta']:.2g}) about whether this person’s "
            f"rows were learned, {assumed}."
        )
    return (
        f"The model lies at most {certificate['bound']:.2g} from the best model without this "
        f"person’s rows, {assumed}. Within this distance a trace may be left."
    )


def _ratio_sentence(request: Request) -> str:
    """Return the ratios of distances of a request in which they prove nothing."""
    before = method_value(request, ORIGINAL, FORGOTTEN_RATIO)
    after = method_value(request, request.chosen, FORGOTTEN_RATIO)
    return (
        f"{figure_name(ratio_column(request))}: {format_ratio(after)}, before the request "
        f"{format_ratio(before)}; a further Retrain lies at at most "
        f"{format_ratio(largest_ratio(request))}, so this figure shows nothing here."
    )


def attack_sentence(request: Request) -> str:
    """Return what a membership attack reaches on the delivered model; empty if not measured."""
    column = attack_column(request)
    after = method_value(request, request.chosen, column)
    method = chosen_method(request)
    if after is None or method is None or is_correction(request):
        return ""
    expected = _expected_auc(request, column)
    interval = _interval_of(method)
    before = method_value(request, ORIGINAL, column)
    notes = [] if expected is None else [f"{expected.text}: {format_number(expected.auc, 2)}"]
    notes += [] if interval is None else [f"95 % interval {_between(interval)}"]
    notes += [] if before is None else [f"before the request {format_number(before, 2)}"]
    meaning = (
        "With so few rows it shows nothing."
        if _has_few_rows(method, column)
        else _attack_meaning(expected, interval, _interval_of(find_method(request, ORIGINAL)))
    )
    return (
        "An attack that guesses from the model’s answers whether a row was learned reaches an AUC "
        f"of {format_number(after, 2)} ({'; '.join(notes)}). {meaning}"
    ).strip()


@dataclass(frozen=True, slots=True)
class _ExpectedAuc:
    """The AUC of an attack on a model that never had the rows.

    Attributes:
        auc: the AUC.
        text: what it is.
        outside: the sentence if the interval of the delivered model does not contain it.
        inside: the sentence if it does.
        unchanged: the sentence if the interval before the request contained it, too.
    """

    auc: float
    text: str
    outside: str
    inside: str
    unchanged: str


_CHANCE = _ExpectedAuc(
    0.5,
    "guessing",
    "The interval does not contain 0.5: the forgotten rows stand out from unseen rows.",
    "The interval contains 0.5: the attack is not distinguishable from guessing.",
    "It was no better than guessing before the request either, so it shows nothing.",
)


def _expected_auc(request: Request, column: Column) -> _ExpectedAuc | None:
    """The AUC without memory; None if only Retrains could tell it, and there are none.

    Classes: the attack compares forgotten rows with unseen rows of the same classes. Other labels:
    it compares losses with those of all test rows, which may differ without memory.
    """
    if column is not LOSS_AUC:
        return _CHANCE
    at_retrain = retrain_reference(request, column)
    if at_retrain is None:
        return None
    return _ExpectedAuc(
        at_retrain.mean,
        "mean of the Retrains",
        "The interval does not contain the mean of models that never had the rows.",
        "The interval contains the mean of models that never had the rows.",
        "The interval before the request contained the mean of models that never had the rows, "
        "too, so it shows nothing.",
    )


def _has_few_rows(method: MethodRecord | None, column: Column) -> bool:
    """Whether the attack of ``column`` has too few rows for a conclusion."""
    if method is None:
        return False
    name = "mia_auc" if column.source[0] == "membership" else column.source[1]
    figure = find_figure(method, name)
    return figure is not None and figure.status == "insufficient_n"


def _interval_of(method: MethodRecord | None) -> tuple[float, float] | None:
    """The 95 % interval of the attack; None without one, and if its ends are equal.

    Ends are equal if every resample gave the same AUC, so they do not show how sure the AUC is.
    """
    interval = None if method is None else membership_interval(method)
    return None if interval is None or interval[0] == interval[1] else interval


def _between(interval: tuple[float, float]) -> str:
    return f"{format_number(interval[0], 2)} to {format_number(interval[1], 2)}"


def _attack_meaning(
    expected: _ExpectedAuc | None,
    after: tuple[float, float] | None,
    before: tuple[float, float] | None,
) -> str:
    if expected is None:
        return (
            "Losses of the forgotten rows and of test rows may differ without memory, so without "
            "Retrains it shows nothing."
        )
    if after is None:
        return "Without an interval it cannot be told from guessing, nor be called guessing."
    if not after[0] <= expected.auc <= after[1]:
        return expected.outside
    if before is not None and before[0] <= expected.auc <= before[1]:
        return expected.unchanged
    return expected.inside
