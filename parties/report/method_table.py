"""Table of all methods of a request: gaps to Retrain, and which columns can show forgetting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from parties.report.comparison import (
    METHODS,
    Measure,
    Record,
    delivered_method,
    nested_value,
    ordered_methods,
    retrain_reference,
    table_measures,
)
from parties.report.method_names import is_independent_retrain
from parties.report.quantities import (
    format_count,
    format_number,
    format_percent,
    format_seconds,
    format_size,
)
from parties.report.sentences import gap_text, proof_text, reference_text, value_text

COSTS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("time", "seconds", format_seconds),
    ("rows", "rows", format_count),
    ("bytes", "bytes", format_size),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of the table, with notes in smaller type, such as the gap to the Retrain models."""

    value: str
    notes: Sequence[str] = ()
    margin: str = ""  # larger side of its confidence interval, for a terminal


@dataclass(frozen=True, slots=True)
class MethodLine:
    """One line of the table: a method, or the mean over the independent Retrain models."""

    name: str
    meaning: str
    kind: str  # style of the line: original, chosen, baseline, retrain or mean
    guarantee: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class MethodTable:
    """The method table of one request, formatted as text."""

    groups: Sequence[tuple[str, int]]  # title, and the number of its columns
    titles: Sequence[str]
    short: Sequence[str]
    lines: Sequence[MethodLine]
    proofs: Sequence[str]  # whether a column can show forgetting
    attacked: str  # sentence on the rows of the membership attack


def method_table(request: Record) -> MethodTable:
    """Return the method table of a request."""
    measures = table_measures(request)
    groups = [(title, len(list(some))) for title, some in groupby(m.group for m in measures)]
    return MethodTable(
        groups=[*groups, ("Effort, and share of Retrain’s", len(COSTS))],
        titles=[*(measure.title for measure in measures), *(title for title, _, _ in COSTS)],
        short=[*(measure.short for measure in measures), *(title for title, _, _ in COSTS)],
        lines=_lines(request, measures),
        proofs=[proof_text(request, measure) for measure in measures],
        attacked=_attacked(request),
    )


def _lines(request: Record, measures: Sequence[Measure]) -> list[MethodLine]:
    """Return the lines of all methods; the mean of Retrain precedes the first Retrain."""
    lines = [_line(request, method, measures) for method in ordered_methods(request)]
    retrains = [place for place, line in enumerate(lines) if line.name.startswith("Retrain")]
    if retrains:
        lines.insert(retrains[0], _mean_line(request, measures))
    return lines


def _line(request: Record, method: Record, measures: Sequence[Measure]) -> MethodLine:
    name = method["name"]
    title, meaning = METHODS.get(name, (name, ""))
    retrained = name.startswith("retrain")
    kind = "original" if name == "original" else "retrain" if retrained else "baseline"
    if name == delivered_method(request):
        kind, meaning = "chosen", f"this request, {meaning}"
    figures = [_cell(request, method, measure) for measure in measures]
    guarantee = method.get("guarantee") or ""
    return MethodLine(title, meaning, kind, guarantee, [*figures, *_costs(method)])


def _cell(request: Record, method: Record, measure: Measure) -> Cell:
    """Return a figure; an independent Retrain has no gap, because it is part of the reference."""
    value = nested_value(method, *measure.path)
    apart = not is_independent_retrain(method["name"])
    gap = gap_text(measure, value, retrain_reference(request, measure.path)) if apart else ()
    interval = nested_value(method, "membership", "interval") if measure.path[-1] == "auc" else None
    if value is None or not interval:
        return Cell(value_text(measure, value), gap)
    low, high = interval
    notes = (f"{format_number(low, 2)} to {format_number(high, 2)}", *gap)
    margin = f"±{format_number(max(value - low, high - value), 2)}"
    return Cell(value_text(measure, value), notes, margin)


def _costs(method: Record) -> list[Cell]:
    """Return the cost of a method; none for the original: training is no cost of forgetting."""
    cost = method["cost"]
    if cost is None:
        return [Cell("–")] * len(COSTS)
    return [
        Cell(show(cost[key]), _of_retrain(method, cost.get(f"{key}_of_retrain")))
        for _, key, show in COSTS
    ]


def _of_retrain(method: Record, part: float | None) -> tuple[str, ...]:
    own = method["name"].startswith("retrain")
    return () if part is None or own else (format_percent(part, 0),)


def _mean_line(request: Record, measures: Sequence[Measure]) -> MethodLine:
    references = [retrain_reference(request, measure.path) for measure in measures]
    pairs = zip(measures, references, strict=True)
    seeds = max((entry.seeds for entry in references if entry is not None), default=0)
    texts = [reference_text(measure, at_retrain) for measure, at_retrain in pairs]
    cells = [Cell(mean, (spread,)) for mean, spread in texts]
    blank = [Cell("")] * len(COSTS)
    return MethodLine(
        "Retrain, mean", f"over {seeds} seeds: the target", "mean", "", [*cells, *blank]
    )


def _attacked(request: Record) -> str:
    """Return the sentence on the rows of the membership attack."""
    attacks = [method["membership"] for method in request["methods"] if method["membership"]]
    if not attacks:
        return "The membership attack was not run."
    members, others = format_count(attacks[0]["members"]), format_count(attacks[0]["others"])
    return f"The attack was scored on {members} forgotten and {others} held-out rows."
