"""The one table: every method in a line, every figure beside Retrain's, and what it can prove."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from parties.report.comparison import (
    METHODS,
    Measure,
    Record,
    chosen,
    columns,
    is_independent,
    look,
    methods,
    reference,
)
from parties.report.quantities import count, number, seconds, share, size
from parties.report.sentences import gap_text, proof_text, reference_text, value_text

COSTS: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("time", "seconds", seconds),
    ("rows", "rows", count),
    ("bytes", "bytes", size),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure and, smaller beside it, what it means next to Retrain."""

    value: str
    notes: Sequence[str] = ()
    margin: str = ""  # the larger half of its interval, for a terminal


@dataclass(frozen=True, slots=True)
class Line:
    """One method, or Retrain's mean over its seeds."""

    name: str
    meaning: str
    kind: str  # how it is set off: original, chosen, baseline, retrain or mean
    guarantee: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class MethodTable:
    """The table of one request, ready to be laid out."""

    groups: Sequence[tuple[str, int]]  # titles over so many columns
    titles: Sequence[str]
    short: Sequence[str]
    lines: Sequence[Line]
    proofs: Sequence[str]  # whether a column can show forgetting
    attacked: str  # on how many rows


def method_table(request: Record) -> MethodTable:
    """Return the table of a request."""
    measures = columns(request)
    groups = [(title, len(list(some))) for title, some in groupby(m.group for m in measures)]
    return MethodTable(
        groups=[*groups, ("Effort, part of Retrain’s", len(COSTS))],
        titles=[*(measure.title for measure in measures), *(title for title, _, _ in COSTS)],
        short=[*(measure.short for measure in measures), *(title for title, _, _ in COSTS)],
        lines=_lines(request, measures),
        proofs=[proof_text(request, measure) for measure in measures],
        attacked=_attacked(request),
    )


def _lines(request: Record, measures: Sequence[Measure]) -> list[Line]:
    """Return the methods' lines, Retrain's mean before the first Retrain."""
    lines = [_line(request, method, measures) for method in methods(request)]
    retrains = [place for place, line in enumerate(lines) if line.name.startswith("Retrain")]
    if retrains:
        lines.insert(retrains[0], _mean_line(request, measures))
    return lines


def _line(request: Record, method: Record, measures: Sequence[Measure]) -> Line:
    name = method["name"]
    title, meaning = METHODS.get(name, (name, ""))
    retrained = name.startswith("retrain")
    kind = "original" if name == "original" else "retrain" if retrained else "baseline"
    if name == chosen(request):
        kind, meaning = "chosen", f"this request, {meaning}"
    figures = [_cell(request, method, measure) for measure in measures]
    guarantee = method.get("guarantee") or ""
    return Line(title, meaning, kind, guarantee, [*figures, *_costs(method)])


def _cell(request: Record, method: Record, measure: Measure) -> Cell:
    """Return a figure; the seeds of Retrain make up the reference, so they have no gap to it."""
    value = look(method, *measure.path)
    apart = not is_independent(method["name"])
    gap = gap_text(measure, value, reference(request, measure.path)) if apart else ()
    interval = look(method, "membership", "interval") if measure.path[-1] == "auc" else None
    if value is None or not interval:
        return Cell(value_text(measure, value), gap)
    low, high = interval
    notes = (f"{number(low, 2)} to {number(high, 2)}", *gap)
    margin = f"±{number(max(value - low, high - value), 2)}"
    return Cell(value_text(measure, value), notes, margin)


def _costs(method: Record) -> list[Cell]:
    """Return what a method took; the original's training is no cost of forgetting."""
    cost = method["cost"]
    if cost is None:
        return [Cell("–")] * len(COSTS)
    return [
        Cell(show(cost[key]), _of_retrain(method, cost.get(f"{key}_of_retrain")))
        for _, key, show in COSTS
    ]


def _of_retrain(method: Record, part: float | None) -> tuple[str, ...]:
    own = method["name"].startswith("retrain")
    return () if part is None or own else (share(part, 0),)


def _mean_line(request: Record, measures: Sequence[Measure]) -> Line:
    found = [reference(request, measure.path) for measure in measures]
    pairs = zip(measures, found, strict=True)
    seeds = max((one.seeds for one in found if one is not None), default=0)
    texts = [reference_text(measure, at_retrain) for measure, at_retrain in pairs]
    cells = [Cell(mean, (spread,)) for mean, spread in texts]
    blank = [Cell("")] * len(COSTS)
    return Line("Retrain, mean", f"over {seeds} seeds: the goal", "mean", "", [*cells, *blank])


def _attacked(request: Record) -> str:
    """Say on how many rows the membership attack was scored."""
    found = [method["membership"] for method in request["methods"] if method["membership"]]
    if not found:
        return "The membership attack was not run."
    members, others = count(found[0]["members"]), count(found[0]["others"])
    return f"The attack was scored on {members} forgotten and {others} held-out rows."
