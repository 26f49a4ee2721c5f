"""Texts of the report: table cells, gaps to Retrain, and the sentences about a request."""

from collections.abc import Sequence

from parties.report.columns import (
    ATTACK_AUC,
    BALANCED_ATTACK,
    FORGOTTEN_RATIO,
    LOSS_AUC,
    TEST_ACCURACY,
    Column,
    Unit,
    attacks_membership,
    is_correction,
    is_vertical,
    utility_column,
    visible_columns,
)
from parties.report.comparison import (
    ComparisonResult,
    Reference,
    chosen_method,
    comparison_result,
    first_proof,
    largest_ratio,
    method_title,
    method_value,
    original_meets,
    retrain_reference,
)
from parties.report.method_names import ORIGINAL, is_independent_retrain, is_retrain
from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_number,
    format_percent,
    format_ratio,
    join_words,
)
from parties.report.record import Privacy, Request, RunFacts, RunRecord
from unlearning.receipts.receipt import AuditLevel

HOLDINGS = {"active": "the labels", "passive": "features only"}

NO_FORMAL_PRIVACY = "no formal privacy"


def gap_text(column: Column, value: float | None, at_retrain: Reference | None) -> tuple[str, ...]:
    """Return the value minus Retrain's mean, in the metric's unit and in standard deviations."""
    if value is None or at_retrain is None or column.unit is Unit.RATIO:
        return ()
    gap, in_spreads = value - at_retrain.mean, at_retrain.in_spreads(value)
    if column.unit is Unit.SHARE:
        text = f"{format_difference(100 * gap, 1)}{NARROW}pts"
    else:
        text = format_difference(gap, column.digits)
    return (
        (text,) if in_spreads is None else (text, f"{format_difference(in_spreads, 1)}{NARROW}sd")
    )


def reference_text(column: Column, at_retrain: Reference | None) -> tuple[str, str]:
    """Return two texts: the mean and the standard deviation of a metric over the Retrain models."""
    if column.unit is Unit.RATIO:
        margin = at_retrain.margin if at_retrain else None
        known = "by definition" if margin is None else f"another: up to {format_ratio(1 + margin)}"
        return format_ratio(1.0), known
    if at_retrain is None:
        return "–", ""
    scale, digits = (100, 1) if column.unit is Unit.SHARE else (1, column.digits)
    spread = at_retrain.spread
    known = (
        "one seed: no spread" if spread is None else f"sd {format_number(scale * spread, digits)}"
    )
    return column.text(at_retrain.mean), known


def proof_text(request: Request, column: Column) -> str:
    """Return as text whether a metric can show forgetting.

    Only a metric in which the original model and the Retrain models differ can show forgetting.
    """
    met = original_meets(request, column)
    if not column.forgets:
        return "not its purpose"
    if is_correction(request) and attacks_membership(column):
        return "no: the rows stay in the training"
    if met is None:
        at_retrain = retrain_reference(request, column)
        if at_retrain is not None and at_retrain.spread is not None and not at_retrain.judges:
            return "unknown: the Retrains do not differ"
        needed = "three" if column.distance else "two"
        return f"unknown: needs the original and {needed} Retrains"
    return (
        "no: the original is within the interval of a Retrain"
        if met
        else f"yes: original {_off(request, column)}"
    )


def _off(request: Request, column: Column) -> str:
    """Return the distance of the original to Retrain as text."""
    before = method_value(request, ORIGINAL, column)
    at_retrain = retrain_reference(request, column)
    if column.unit is Unit.RATIO or at_retrain is None or before is None:
        return f"at {format_ratio(before)}"
    in_spreads = at_retrain.in_spreads(before)
    if in_spreads is None:
        return f"{gap_text(column, before, at_retrain)[0]} off"
    return f"{format_number(abs(in_spreads), 0)}{NARROW}sd off"


def audit_sentence(request: Request) -> str:
    """Return the audit level of a request, and what it cannot show; empty if no method ran."""
    match request.audit_level:
        case AuditLevel.QUICK:
            return (
                "Audit level “quick”: no Retrain was trained for comparison, so the figures cannot "
                "say how far the model is from a model that never had the forgotten rows."
            )
        case AuditLevel.FULL:
            count = sum(is_independent_retrain(each.name) for each in request.methods)
            return (
                f"Audit level “full”: the model was compared with {count} independent "
                f"Retrain{'' if count == 1 else 's'} by the listed tests, so the figures cannot "
                "exclude a trace that these tests do not find."
            )
    return ""


def closing_sentence(request: Request) -> str:
    """Return the sentence that sums up a request.

    It has the distance to Retrain, the main figure of utility and the cost; without Retrains, the
    most important figures before and after the request, and the guarantee of the method.
    """
    if request.audit_level is AuditLevel.QUICK:
        return _before_and_after(request)
    if not is_vertical(request):
        return _change_sentence(request)
    parts = [_distance(request), _utility(request), _effort(request)]
    sentence = "; ".join(part for part in parts if part) + "."
    if comparison_result(request) is ComparisonResult.UNINFORMATIVE:
        sentence += " The original is below this limit, too, so this figure proves nothing here."
    return sentence


def _before_and_after(request: Request) -> str:
    """Return the most important figures of the original and of the delivered model."""
    pairs = [
        (each, [method_value(request, name, each) for name in (ORIGINAL, request.chosen)])
        for each in visible_columns(request)
        if each.short and each is not BALANCED_ATTACK  # the attack's AUC is enough
    ]
    figures = [
        f"{_named(column)} {' and '.join(map(column.text, values))}"
        for column, values in pairs
        if None not in values
    ]
    method = chosen_method(request)
    guarantee = method.guarantee if method else None
    return (
        f"Before and after {method_title(request)}: {'; '.join(figures)}. "
        f"Guarantee of the method: {guarantee or 'none stated'}."
    )


def _named(column: Column) -> str:
    """Return a column's metric in words."""
    match column.group:
        case TEST_ACCURACY.group:
            return f"accuracy on {column.title}"
        case ATTACK_AUC.group:
            chance = "" if column is LOSS_AUC else " (chance is 0.5)"
            return f"AUC of the membership attack{chance}"
        case "Test rows" | "Forgotten rows" | "Remaining rows":
            return f"{column.title} on {column.group.lower()}"
    return column.title


def _change_sentence(request: Request) -> str:
    """Return the change of the first metric that can show forgetting, as a sentence."""
    if request.members is None or not request.members.leaving:
        return "No client had such rows: the model did not change."
    column = first_proof(request)
    if column is None and sum(is_retrain(each.name) for each in request.methods) < 2:
        return (
            "With one Retrain the spread of the metrics is unknown, so no metric can prove "
            "forgetting; set unlearning.retrains to at least 2."
        )
    if column is None:
        return (
            "No metric separates the original model from a Retrain, so this run proves neither "
            "forgetting nor its absence."
        )
    before, after = (method_value(request, name, column) for name in (ORIGINAL, request.chosen))
    at_retrain = retrain_reference(request, column)
    retrain = column.text(at_retrain.mean if at_retrain else None)
    return (
        f"{method_title(request)} changed “{column.title}” from {column.text(before)} "
        f"to {column.text(after)}; a Retrain has {retrain}."
    )


def _distance(request: Request) -> str:
    name = method_title(request)
    before = method_value(request, ORIGINAL, FORGOTTEN_RATIO)
    after = method_value(request, request.chosen, FORGOTTEN_RATIO)
    if after is None:
        return f"{name}'s outputs on the forgotten rows were not compared with a Retrain's"
    limit = largest_ratio(request)
    further = "" if limit is None else f"a further Retrain: up to {format_number(limit, 1)}; "
    return (
        f"{name}'s outputs on the forgotten rows are {format_number(after, 1)} times as far from "
        f"a Retrain as another Retrain is ({further}original: {format_number(before, 1)})"
    )


def _utility(request: Request) -> str:
    column = utility_column(request)
    after = method_value(request, request.chosen, column)
    at_retrain = retrain_reference(request, column)
    if after is None or at_retrain is None:
        return ""
    name = "test accuracy" if column is TEST_ACCURACY else _named(column)
    share = column.unit is Unit.SHARE
    gap = abs(after - at_retrain.mean)
    shown = f"{100 * gap:.1f}" if share else f"{gap:.{column.digits}f}"
    if float(shown) == 0:
        return f"{name} equal to Retrain"
    side = "below" if after < at_retrain.mean else "above"
    return f"{name} {shown}{' points' if share else ''} {side} Retrain"


def _effort(request: Request) -> str:
    method = chosen_method(request)
    rows = method.cost.rows_of_retrain if method and method.cost else None
    return "" if rows is None else f"{format_percent(rows, 0)} of Retrain's rows exchanged"


def page_headline(record: RunRecord) -> str:
    """Return the title of the page."""
    name, requests = record.run.federation, record.requests
    if not requests:
        if record.failure is None:
            return f"{name}: one model, nothing forgotten"
        model = "no model trained" if record.training is None else "model trained"
        return f"{name}: unfinished run, {model}, nothing forgotten"
    several = f" in {len(requests)} requests" if len(requests) > 1 else ""
    named = [each.rows for each in requests if each.rows is not None]
    if named:
        rows = format_count(sum(each.forgotten for each in named))
        return f"{name}: forgetting {rows} rows{several}"
    return f"{name}: {len(requests)} requests" if several else f"{name}: {_leaving(requests[0])}"


def run_sentence(record: RunRecord) -> str:
    """Return the sentences about the parties or clients of a run, and about their model."""
    run = record.run
    accuracy = run.test_accuracy
    reached = "" if accuracy is None else f" Its test accuracy is {format_percent(accuracy)}."
    if run.clients is not None:
        return (
            f"{format_count(run.clients)} clients share a model of {format_count(run.parameters)} "
            f"parameters; the server has no rows.{reached} Secure aggregation: "
            f"{(run.aggregation or {}).get('claim', 'not recorded')}."
        )
    roles = {party.role: "" for party in run.parties}
    held = [_holders([p.name for p in run.parties if p.role == role], role) for role in roles]
    rows = f"{format_count(run.common_rows)} common rows"
    if record.failure is not None and record.training is None:
        return f"{'; '.join([*held, f'the parties have {rows}'])}. No model was trained."
    trained = f"trained one model on their {rows}.{reached}"
    return f"{'; '.join(held)}. Together they {trained}" if held else f"The parties {trained}"


def privacy_claims_of(run: RunFacts) -> Privacy | None:
    """Return the privacy claims of a run; None in the federated modes (see ``run.aggregation``)."""
    if run.privacy is None and run.mode == "vertical":
        return Privacy(summary=NO_FORMAL_PRIVACY)
    return run.privacy


def _holders(names: list[str], role: str) -> str:
    """Return which data the parties of a role hold, as text."""
    data = HOLDINGS.get(role, f"the part of {role}")
    return f"{join_words(names)} {'holds' if len(names) == 1 else 'hold'} {data}"


def left_out_sentence(classes: Sequence[str]) -> str:
    """Return the sentence about the ``classes`` whose rows the partition gives to no client."""
    named, these = ("class", "this class") if len(classes) == 1 else ("classes", "these classes")
    return (
        f"The partition gives {named} {join_words([*classes])} to no client: no row of {these} is "
        "used in training or in tests."
    )


def request_sentence(request: Request, run: RunFacts) -> str:
    """Return the sentences about the rows or the clients of a request."""
    rows = request.rows
    if rows is None:
        leaving = _leaving(request)
        return f"{leaving[0].upper()}{leaving[1:]}."
    learned = (run.rows or {}).get("learn")
    among = f" of the {format_count(learned)} training rows" if learned else " training rows"
    if rows.forgotten == 0:
        return "Nothing was to be forgotten: the request names no training row." + _other_rows(
            request
        )
    count = f"{format_count(rows.forgotten)}{among}"
    if rows.corrects:
        return (
            f"{count} had wrong labels{_classes(request)}. The request replaced the labels. On "
            "this page, “forgotten rows” are these rows. Figures of accuracy use their right "
            "labels. Attacks on membership say nothing here, because the rows stay in the training."
        )
    named = f"{count} were to be forgotten{_classes(request)}."
    return named + _other_rows(request)


def _leaving(request: Request) -> str:
    """Return a text that names the clients whose rows are forgotten."""
    members = request.members.leaving if request.members else ()
    leaving = sorted({each.partition(",")[0] for each in members})
    if not leaving:
        return "no client had such rows"
    if len(leaving) > 3:
        return f"rows of {len(leaving)} clients are forgotten"
    return f"rows of {join_words(leaving)} are forgotten"


def _classes(request: Request) -> str:
    rows = request.rows
    if rows is None or not rows.classes:
        return ""
    part = "" if rows.fraction in (None, 1) else f"{format_percent(rows.fraction, 0)} of "
    return (
        f": {part}{'class' if len(rows.classes) == 1 else 'classes'} {join_words([*rows.classes])}"
    )


def _other_rows(request: Request) -> str:
    """Return the sentences about rows outside the training rows and about planted rows."""
    rows = request.rows
    if rows is None:
        return ""
    held, planted = sum(rows.dropped.values()), rows.canaries
    dropped = (
        f" {format_count(held)} other rows of the request were validation or test rows; "
        "they were dropped."
    )
    return (dropped if held else "") + (
        f" {format_count(planted)} rows were planted." if planted else ""
    )
