"""Tables of a run for the terminal: model, methods, audits and traffic."""

from collections.abc import Sequence
from itertools import compress
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parties.report.audits import audit_table
from parties.report.comparison import result_sentence
from parties.report.guarantee_figures import guarantee_blocks
from parties.report.method_table import Cell, MethodLine, method_table
from parties.report.model_table import alone_sentence, model_summary
from parties.report.quantities import NARROW, format_count, format_seconds, format_size
from parties.report.record import PhaseTraffic, Request, read_record
from parties.report.sentences import (
    audit_sentence,
    closing_sentence,
    left_out_sentence,
    privacy_claims_of,
    request_sentence,
    run_sentence,
)

STYLES = {"chosen": "bold", "mean": "italic"}
FULL_WIDTH = 96  # characters that all columns need
# What columns mean, by the beginning of their headings.
LEGEND: Final = {
    "attack": "attack: tells forgotten rows from rows that were never learned; 0.5 is chance.",
    "losses": "losses: takes rows with a small loss for forgotten rows; the Retrains show the "
    "value without memory.",
    "JS": "JS: distance of the predictions from a Retrain's, over that between two Retrains.",
    "diff.": "diff.: difference of the predictions from a Retrain's (root mean square), over that "
    "between two Retrains.",
}
OPTIONAL_COLUMNS = (
    "JS\nremain",
    "diff.\nremain",
    "rows",
    "bytes",
)  # left out on a narrower terminal


def report_tables(metrics: Any, width: int = FULL_WIDTH) -> RenderableType:
    """Return the tables of a run, for a terminal of ``width`` characters.

    ``metrics`` is the record of the run as JSON values.

    Raises:
        DataError: ``metrics`` is no record of a run.
    """
    record = read_record(metrics)
    shown: list[RenderableType] = [Text(run_sentence(record))]
    if record.model:
        shown.append(Text(model_summary(record.model)))
        if record.model.alone:
            shown.append(Text(alone_sentence(record.model.alone)))
    if privacy := privacy_claims_of(record.run):
        shown.append(Text(f"Privacy: {privacy.summary}."))
    if record.run.left_out:
        shown.append(Text(left_out_sentence(record.run.left_out)))
    for request in record.requests:
        shown.append(Text(f"\n{request_sentence(request, record.run)}\n"))
        shown += [_methods(request, width), *_audits(request), Text(_summary(request))]
    if any(each.messages for each in record.traffic):
        shown += [Text(), _traffic(record.traffic)]
    return Group(*shown)


def _summary(request: Request) -> str:
    guarantees = [text for block in guarantee_blocks(request) for text in block.sentences]
    result = f"{result_sentence(request)}. {closing_sentence(request)}"
    return " ".join(filter(None, [result, *guarantees, audit_sentence(request)]))


def _methods(request: Request, width: int) -> Table:
    methods = method_table(request)
    shown = [
        bool(title) and (width >= FULL_WIDTH or title not in OPTIONAL_COLUMNS)
        for title in methods.short
    ]
    titles = list(compress(methods.short, shown))
    shown_beside = "every method beside Retrain" if request.has_retrains else "before and after"
    grid = _grid(f"{request.name}: {shown_beside}", "method", titles)
    for line in methods.lines:
        cells = map(_compact, compress(line.cells, shown))
        grid.add_row(Text(_name(line)), *cells, style=STYLES.get(line.kind, ""))
    notes = [text for start, text in LEGEND.items() if any(t.startswith(start) for t in titles)]
    grid.caption = Text(" ".join(["*: the method of this request.", *notes]), justify="left")
    return grid


def _name(line: MethodLine) -> str:
    chosen, diverged = line.kind == "chosen", line.diverged
    return f"{line.name}{' *' if chosen else ''}{' (diverged)' if diverged else ''}"


def _audits(request: Request) -> list[RenderableType]:
    """Return the table of audit headlines; empty if no audit ran."""
    found = audit_table(request)
    if not found.headlines:
        return []
    compared = request.has_retrains
    reference = ["Retrain", "gap, sd"] if compared else []
    title = "Audits beside Retrain" if compared else "Audits"
    grid = _grid(title, "figure", [found.method, *reference, "original"])
    for line in found.headlines:
        cells = [line.value, *([line.retrain, line.gap] if compared else []), line.original]
        grid.add_row(Text(line.title), *map(Text, cells))
    return [grid]


def _compact(cell: Cell) -> Text:
    """Return a figure without its gap; an AUC has half the width of its interval."""
    return Text(f"{cell.value}{cell.margin}".replace(NARROW, " "))


def _traffic(traffic: Sequence[PhaseTraffic]) -> Table:
    grid = _grid("Traffic", "phase", ["time", "bytes", "messages"])
    for row in traffic:
        figures = [format_seconds(row.seconds), format_size(row.bytes), format_count(row.messages)]
        grid.add_row(Text(row.phase), *(Text(figure) for figure in figures))
    return grid


def _grid(title: str, first: str, others: Sequence[str]) -> Table:
    """Return an empty table; names are ``Text`` objects, so that Rich parses no markup in them."""
    grid = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    grid.add_column(Text(first))  # long names wrap, numbers stay whole
    for other in others:
        grid.add_column(Text(other), justify="right", no_wrap=True)
    return grid
