"""What the report says in words: cells, gaps, verdicts and the closing sentence of a request."""

from parties.report.comparison import (
    FORGOTTEN_RATIO,
    TEST_ACCURACY,
    Kind,
    Measure,
    Outcome,
    Record,
    Reference,
    chosen,
    figure,
    is_met,
    label,
    look,
    outcome,
    reference,
)
from parties.report.quantities import NARROW, count, listing, number, share, signed, times
from parties.vertical.privacy import NONE

HOLDINGS = {"active": "the labels", "passive": "features only"}


def value_text(measure: Measure, value: float | None) -> str:
    """Return a figure as a table prints it."""
    if measure.kind is Kind.RATIO:
        return times(value)
    return share(value) if measure.kind is Kind.SHARE else number(value, 3)


def gap_text(
    measure: Measure, value: float | None, at_retrain: Reference | None
) -> tuple[str, ...]:
    """Return how far a figure is from Retrain's, in its units and in Retrain's spreads."""
    if value is None or at_retrain is None or measure.kind is Kind.RATIO:
        return ()
    gap = value - at_retrain.mean
    points = measure.kind is Kind.SHARE
    text = f"{signed(100 * gap, 1)}{NARROW}pts" if points else signed(gap, 3)
    if not at_retrain.spread:
        return (text,)
    return text, f"{signed(gap / at_retrain.spread, 1)}{NARROW}sd"


def reference_text(measure: Measure, at_retrain: Reference | None) -> tuple[str, str]:
    """Return Retrain's mean, and its spread."""
    if measure.kind is Kind.RATIO:
        return times(1.0), "by definition"
    if at_retrain is None:
        return value_text(measure, None), ""
    scale, digits = (100, 1) if measure.kind is Kind.SHARE else (1, 3)
    spread = at_retrain.spread
    known = "one seed: no spread" if spread is None else f"sd {number(scale * spread, digits)}"
    return value_text(measure, at_retrain.mean), known


def proof_text(request: Record, measure: Measure) -> str:
    """Say whether a column can show forgetting: not where the original already meets it."""
    met = is_met(request, measure)
    if not measure.of_forgetting:
        return "not meant to"
    if met is None:
        return "unknown: takes the original and two Retrains"
    return "no: the original already meets it" if met else f"yes: original {_off(request, measure)}"


def _off(request: Record, measure: Measure) -> str:
    """Return how far the original is from Retrain."""
    before = figure(request, "original", *measure.path)
    at_retrain = reference(request, measure.path)
    if measure.kind is Kind.RATIO or at_retrain is None:
        return f"at {times(before)}"
    if not at_retrain.spread:
        return f"{gap_text(measure, before, at_retrain)[0]} off"
    return f"{number(abs(before - at_retrain.mean) / at_retrain.spread, 0)}{NARROW}sd off"


def closing(request: Record) -> str:
    """Return the one sentence to remember of a request."""
    parts = [_distance(request), _utility(request), _effort(request)]
    sentence = "; ".join(part for part in parts if part) + "."
    if outcome(request) is Outcome.MOOT:
        sentence += " The original already meets this figure, so here it proves nothing."
    return sentence


def _distance(request: Record) -> str:
    name = label(chosen(request))
    before = figure(request, "original", *FORGOTTEN_RATIO.path)
    after = figure(request, chosen(request), *FORGOTTEN_RATIO.path)
    if after is None:
        return f"{name}'s outputs on the forgotten rows were not compared with a Retrain's"
    return (
        f"{name}'s outputs on the forgotten rows are {number(after, 1)} times as far from "
        f"a Retrain as another Retrain is (original: {number(before, 1)})"
    )


def _utility(request: Record) -> str:
    after = figure(request, chosen(request), *TEST_ACCURACY.path)
    at_retrain = reference(request, TEST_ACCURACY.path)
    if after is None or at_retrain is None:
        return ""
    gap = f"{100 * abs(after - at_retrain.mean):.1f}"
    if float(gap) == 0:
        return "test accuracy level with Retrain"
    side = "below" if after < at_retrain.mean else "above"
    return f"test accuracy {gap} points {side} Retrain"


def _effort(request: Record) -> str:
    rows = figure(request, chosen(request), "cost", "rows_of_retrain")
    return "" if rows is None else f"{share(rows, 0)} of Retrain's rows exchanged"


def headline(metrics: Record) -> str:
    """Return the page's title."""
    federation, requests = metrics["run"]["federation"], metrics["requests"] or []
    if not requests:
        return f"{federation}: one model, nothing forgotten"
    rows = count(sum(request["forgotten"] for request in requests))
    asked = f" in {len(requests)} requests" if len(requests) > 1 else ""
    return f"{federation}: forgetting {rows} rows{asked}"


def who(run: Record) -> str:
    """Say who trained on how many rows."""
    parties = run["parties"] or []
    roles = {party["role"]: "" for party in parties}
    held = [_holders([p["name"] for p in parties if p["role"] == role], role) for role in roles]
    trained = f"trained one model on the {count(run['common_rows'])} rows they have in common."
    reached = run.get("test_accuracy")
    trained += "" if reached is None else f" It is right on {share(reached)} of the test rows."
    return f"{'; '.join(held)}. Together they {trained}" if held else f"The parties {trained}"


def privacy(run: Record) -> Record:
    """Return what may be claimed of the run's privacy, in a few words and in whole sentences."""
    said: Record | None = run.get("privacy")
    return said or {"summary": NONE, "claims": []}


def _holders(names: list[str], role: str) -> str:
    """Say what the parties of a role bring."""
    brought = HOLDINGS.get(role, f"the part of {role}")
    return f"{listing(names)} {'holds' if len(names) == 1 else 'hold'} {brought}"


def what(request: Record, rows: Record | None) -> str:
    """Say which rows a request names."""
    learned = look(rows, "learn")
    among = f" of the {count(learned)} training rows" if learned else " training rows"
    if request["forgotten"] == 0:
        return "There was nothing to forget: no training row was named." + _beside(request)
    named = f"{count(request['forgotten'])}{among} were to be forgotten{_chosen(request)}."
    return named + _beside(request)


def _chosen(request: Record) -> str:
    classes = [str(name) for name in request["classes"] or []]
    if not classes:
        return ""
    part = "" if request["fraction"] in (None, 1) else f"{share(request['fraction'], 0)} of "
    return f": {part}{'class' if len(classes) == 1 else 'classes'} {listing(classes)}"


def _beside(request: Record) -> str:
    """Say what was requested outside the training rows, and what was planted."""
    held = sum(rows or 0 for rows in (request["dropped"] or {}).values())
    planted = request["canaries"]
    dropped = f" {count(held)} more lay among validation and test rows and were dropped there."
    return (dropped if held else "") + (f" {count(planted)} rows were planted." if planted else "")
