"""Table of all methods of a request: gaps to Retrain, and which columns can show forgetting."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from parties.report.columns import ATTACK_AUC, Column, find_figure, is_vertical, visible_columns
from parties.report.comparison import ordered_methods, retrain_reference
from parties.report.method_names import (
    ORIGINAL,
    is_independent_retrain,
    is_retrain,
)
from parties.report.quantities import (
    format_count,
    format_number,
    format_percent,
    format_seconds,
    format_size,
)
from parties.report.record import MethodRecord, Request
from parties.report.sentences import gap_text, proof_text, reference_text


@dataclass(frozen=True, slots=True)
class CostColumn:
    """A column with a cost of the methods."""

    title: str  # heading of the column
    name: str  # name of the cost in the record
    show: Callable[[float | None], str]  # function that formats a cost


COSTS = (
    CostColumn("time", "seconds", format_seconds),
    CostColumn("rows", "rows", format_count),
    CostColumn("bytes", "size", format_size),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A number of the table, with notes in smaller type, such as the gap to the Retrain models."""

    value: str
    notes: Sequence[str] = ()
    margin: str = ""  # larger side of its confidence interval, for a terminal
    number: float | None = None  # the number itself; None if it is absent


@dataclass(frozen=True, slots=True)
class MethodLine:
    """One line of the table: a method, or the mean over the independent Retrain models."""

    name: str  # title of the method
    meaning: str  # what the method does
    kind: str  # style of the line: original, chosen, baseline, retrain or mean
    guarantee: str  # guarantee of the method, or why it has no valid model
    diverged: bool  # whether the method has no valid model
    cells: Sequence[Cell]  # one cell per column


@dataclass(frozen=True, slots=True)
class MethodTable:
    """The method table of one request, formatted as text."""

    # Headings over several columns, each with the number of its columns.
    groups: Sequence[tuple[str, int]]
    titles: Sequence[str]  # headings of the columns
    # Headings for the terminal; empty for a column that the terminal does not show.
    short: Sequence[str]
    lines: Sequence[MethodLine]  # the lines
    # For each column of a metric, whether it can show forgetting; empty without Retrains.
    proofs: Sequence[str]
    costs: int  # number of columns with a cost
    attacked: str  # sentence on the rows of the membership attack; empty if the figures state them

    @property
    def full_titles(self) -> list[str]:
        """Headings of the columns, each with the heading over it."""
        over = [title for title, width in self.groups for _ in range(width)]
        return [f"{group}: {title}" for group, title in zip(over, self.titles, strict=True)]


def method_table(request: Request) -> MethodTable:
    """Return the method table of a request."""
    columns, costs = visible_columns(request), _visible_costs(request)
    groups = [(title, len(list(some))) for title, some in groupby(each.group for each in columns)]
    compared = request.has_retrains
    return MethodTable(
        groups=[*groups, ("Effort", len(costs))],
        titles=[*(each.title for each in columns), *(each.title for each in costs)],
        short=[*(each.short for each in columns), *(each.title for each in costs)],
        lines=_lines(request, columns, costs),
        proofs=[proof_text(request, each) for each in columns] if compared else [],
        costs=len(costs),
        attacked=_attacked(request),
    )


def _visible_costs(request: Request) -> list[CostColumn]:
    """Return the columns of costs; rows are a column only if the mode counts them."""
    known = [each.cost for each in request.methods if each.cost]
    counted = not known or any(each.rows is not None for each in known)
    return [each for each in COSTS if each.name != "rows" or counted]


def _lines(
    request: Request, columns: Sequence[Column], costs: Sequence[CostColumn]
) -> list[MethodLine]:
    """Return the lines of all methods; the mean of Retrain precedes the first one of the mean."""
    methods = ordered_methods(request)
    lines = [_line(request, each, columns, costs) for each in methods]
    retrains = [place for place, each in enumerate(methods) if is_independent_retrain(each.name)]
    if retrains:
        lines.insert(retrains[0], _mean_line(request, columns, costs))
    return lines


def _line(
    request: Request, method: MethodRecord, columns: Sequence[Column], costs: Sequence[CostColumn]
) -> MethodLine:
    meaning, retrained = method.meaning, is_retrain(method.name)
    kind = "original" if method.name == ORIGINAL else "retrain" if retrained else "baseline"
    if method.name == request.chosen:
        kind, meaning = "chosen", f"this request, {meaning}"
    cells = [_cell(request, method, each) for each in columns]
    guarantee = method.diverged or method.guarantee or ""
    return MethodLine(
        method.title,
        meaning,
        kind,
        guarantee,
        method.diverged is not None,
        [*cells, *(_cost_cell(method, each) for each in costs)],
    )


def _cell(request: Request, method: MethodRecord, column: Column) -> Cell:
    """Return a figure; an independent Retrain has no gap, because it is part of the reference."""
    value = column.value(method)
    if value is None:
        return Cell(column.text(None) if is_vertical(request) else "–")
    apart = not is_independent_retrain(method.name)
    notes = gap_text(column, value, retrain_reference(request, column)) if apart else ()
    if column is ATTACK_AUC and method.membership and method.membership.interval:
        low, high = method.membership.interval
        margin = f"±{format_number(max(value - low, high - value), 2)}"
        between = f"{format_number(low, 2)} to {format_number(high, 2)}"
        return Cell(column.text(value), (f"95 % interval {between}", *notes), margin, value)
    return Cell(column.text(value), (*notes, *_too_few(method, column)), number=value)


def _too_few(method: MethodRecord, column: Column) -> tuple[str, ...]:
    """Return a note if a figure has too few rows for a conclusion."""
    part, name = column.source
    found = find_figure(method, name) if part == "figure" else None
    few = found is not None and found.status == "insufficient_n"
    return (f"n = {found.n}: too few",) if found and few else ()


def _cost_cell(method: MethodRecord, column: CostColumn) -> Cell:
    """Return a cost of a method; none for the original: training is no cost of forgetting."""
    if method.cost is None:
        return Cell("–")
    cost = getattr(method.cost, column.name)
    part = getattr(method.cost, f"{column.name}_of_retrain")
    shown = part is not None and not is_retrain(method.name)
    notes = (f"{format_percent(part, 0)} of Retrain’s",) if shown else ()
    return Cell(column.show(cost), notes, number=cost)


def _mean_line(
    request: Request, columns: Sequence[Column], costs: Sequence[CostColumn]
) -> MethodLine:
    references = [retrain_reference(request, each) for each in columns]
    pairs = zip(columns, references, strict=True)
    seeds = max((entry.seeds for entry in references if entry is not None), default=0)
    texts = [reference_text(column, at_retrain) for column, at_retrain in pairs]
    numbers = [None if each is None else each.mean for each in references]
    cells = [
        Cell(mean, (spread,), number=number)
        for (mean, spread), number in zip(texts, numbers, strict=True)
    ]
    counted, blank = "one seed" if seeds == 1 else f"{seeds} seeds", [Cell("")] * len(costs)
    meaning = f"over {counted}: the target"
    return MethodLine("Retrain, mean", meaning, "mean", "", False, [*cells, *blank])


def _attacked(request: Request) -> str:
    """Return the sentence on the rows of the membership attack."""
    if not is_vertical(request):
        return ""
    attacks = [each.membership for each in request.methods if each.membership]
    losses = [found for each in request.methods if (found := find_figure(each, "loss_auc"))]
    if losses and losses[0].value is not None:
        return (
            f"The attack takes rows with a small loss for forgotten rows: {losses[0].n} forgotten "
            "rows against the test rows."
        )
    if not attacks:
        return "The membership attack was not run."
    members, others = format_count(attacks[0].members), format_count(attacks[0].others)
    return f"The attack was scored on {members} forgotten and {others} held-out rows."
