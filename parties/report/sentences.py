"""Texts of the report: table cells, gaps to Retrain, and the sentences about a request."""

from parties.report.comparison import (
    FORGOTTEN_RATIO,
    TEST_ACCURACY,
    ComparisonResult,
    Measure,
    MeasureKind,
    Record,
    Reference,
    comparison_result,
    delivered_method,
    method_figure,
    method_title,
    nested_value,
    original_meets,
    retrain_reference,
)
from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_number,
    format_percent,
    format_ratio,
    join_words,
)

HOLDINGS = {"active": "the labels", "passive": "features only"}

NO_FORMAL_PRIVACY = "no formal privacy"


def value_text(measure: Measure, value: float | None) -> str:
    """Return the value of a metric as the text of a table cell."""
    if measure.kind is MeasureKind.RATIO:
        return format_ratio(value)
    return format_percent(value) if measure.kind is MeasureKind.SHARE else format_number(value, 3)


def gap_text(
    measure: Measure, value: float | None, at_retrain: Reference | None
) -> tuple[str, ...]:
    """Return the value minus Retrain's mean, in the metric's unit and in standard deviations."""
    if value is None or at_retrain is None or measure.kind is MeasureKind.RATIO:
        return ()
    gap = value - at_retrain.mean
    points = measure.kind is MeasureKind.SHARE
    text = f"{format_difference(100 * gap, 1)}{NARROW}pts" if points else format_difference(gap, 3)
    if not at_retrain.spread:
        return (text,)
    return text, f"{format_difference(gap / at_retrain.spread, 1)}{NARROW}sd"


def reference_text(measure: Measure, at_retrain: Reference | None) -> tuple[str, str]:
    """Return two texts: the mean and the standard deviation of a metric over the Retrain models."""
    if measure.kind is MeasureKind.RATIO:
        return format_ratio(1.0), "by definition"
    if at_retrain is None:
        return value_text(measure, None), ""
    scale, digits = (100, 1) if measure.kind is MeasureKind.SHARE else (1, 3)
    spread = at_retrain.spread
    known = (
        "one seed: no spread" if spread is None else f"sd {format_number(scale * spread, digits)}"
    )
    return value_text(measure, at_retrain.mean), known


def proof_text(request: Record, measure: Measure) -> str:
    """Return as text whether a metric can show forgetting.

    Only a metric in which the original model and the Retrain models differ can show forgetting.
    """
    met = original_meets(request, measure)
    if not measure.of_forgetting:
        return "not its purpose"
    if met is None:
        return "unknown: needs the original and two Retrains"
    return (
        "no: the original is as near to Retrain"
        if met
        else f"yes: original {_off(request, measure)}"
    )


def _off(request: Record, measure: Measure) -> str:
    """Return the distance of the original to Retrain as text."""
    before = method_figure(request, "original", *measure.path)
    at_retrain = retrain_reference(request, measure.path)
    if measure.kind is MeasureKind.RATIO or at_retrain is None:
        return f"at {format_ratio(before)}"
    if not at_retrain.spread:
        return f"{gap_text(measure, before, at_retrain)[0]} off"
    return f"{format_number(abs(before - at_retrain.mean) / at_retrain.spread, 0)}{NARROW}sd off"


def closing_sentence(request: Record) -> str:
    """Return the sentence that sums up a request: distance to Retrain, accuracy and cost."""
    parts = [_distance(request), _utility(request), _effort(request)]
    sentence = "; ".join(part for part in parts if part) + "."
    if comparison_result(request) is ComparisonResult.UNINFORMATIVE:
        sentence += " The original is as near to a Retrain, so this figure proves nothing here."
    return sentence


def _distance(request: Record) -> str:
    name = method_title(delivered_method(request))
    before = method_figure(request, "original", *FORGOTTEN_RATIO.path)
    after = method_figure(request, delivered_method(request), *FORGOTTEN_RATIO.path)
    if after is None:
        return f"{name}'s outputs on the forgotten rows were not compared with a Retrain's"
    return (
        f"{name}'s outputs on the forgotten rows are {format_number(after, 1)} times as far from "
        f"a Retrain as another Retrain is (original: {format_number(before, 1)})"
    )


def _utility(request: Record) -> str:
    after = method_figure(request, delivered_method(request), *TEST_ACCURACY.path)
    at_retrain = retrain_reference(request, TEST_ACCURACY.path)
    if after is None or at_retrain is None:
        return ""
    gap = f"{100 * abs(after - at_retrain.mean):.1f}"
    if float(gap) == 0:
        return "test accuracy equal to Retrain"
    side = "below" if after < at_retrain.mean else "above"
    return f"test accuracy {gap} points {side} Retrain"


def _effort(request: Record) -> str:
    rows = method_figure(request, delivered_method(request), "cost", "rows_of_retrain")
    return "" if rows is None else f"{format_percent(rows, 0)} of Retrain's rows exchanged"


def page_headline(metrics: Record) -> str:
    """Return the title of the page."""
    federation, requests = metrics["run"]["federation"], metrics["requests"] or []
    if not requests:
        return f"{federation}: one model, nothing forgotten"
    rows = format_count(sum(request["forgotten"] for request in requests))
    several = f" in {len(requests)} requests" if len(requests) > 1 else ""
    return f"{federation}: forgetting {rows} rows{several}"


def parties_sentence(run: Record) -> str:
    """Return the sentence about the parties, their common rows and the test accuracy."""
    parties = run["parties"] or []
    roles = {party["role"]: "" for party in parties}
    held = [_holders([p["name"] for p in parties if p["role"] == role], role) for role in roles]
    trained = f"trained one model on their {format_count(run['common_rows'])} common rows."
    accuracy = run.get("test_accuracy")
    trained += "" if accuracy is None else f" Its test accuracy is {format_percent(accuracy)}."
    return f"{'; '.join(held)}. Together they {trained}" if held else f"The parties {trained}"


def privacy_claims_of(run: Record) -> Record:
    """Return the privacy claims of a run: a summary, and the claims as sentences."""
    privacy: Record | None = run.get("privacy")
    return privacy or {"summary": NO_FORMAL_PRIVACY, "claims": []}


def _holders(names: list[str], role: str) -> str:
    """Return which data the parties of a role hold, as text."""
    data = HOLDINGS.get(role, f"the part of {role}")
    return f"{join_words(names)} {'holds' if len(names) == 1 else 'hold'} {data}"


def request_sentence(request: Record, rows: Record | None) -> str:
    """Return the sentences about the rows of a request."""
    learned = nested_value(rows, "learn")
    among = f" of the {format_count(learned)} training rows" if learned else " training rows"
    if request["forgotten"] == 0:
        return "Nothing was to be forgotten: the request names no training row." + _other_rows(
            request
        )
    named = f"{format_count(request['forgotten'])}{among} were to be forgotten{_classes(request)}."
    return named + _other_rows(request)


def _classes(request: Record) -> str:
    classes = [str(name) for name in request["classes"] or []]
    if not classes:
        return ""
    part = (
        "" if request["fraction"] in (None, 1) else f"{format_percent(request['fraction'], 0)} of "
    )
    return f": {part}{'class' if len(classes) == 1 else 'classes'} {join_words(classes)}"


def _other_rows(request: Record) -> str:
    """Return the sentences about rows outside the training rows and about planted rows."""
    held = sum(rows or 0 for rows in (request["dropped"] or {}).values())
    planted = request["canaries"]
    dropped = (
        f" {format_count(held)} other rows of the request were validation or test rows; "
        "they were dropped."
    )
    return (dropped if held else "") + (
        f" {format_count(planted)} rows were planted." if planted else ""
    )
