"""The report on the terminal: a table and a sentence a request, then the traffic."""

from collections.abc import Sequence
from itertools import compress

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parties.report.audit_table import audit_table
from parties.report.comparison import Record, outcome
from parties.report.method_table import Cell, method_table
from parties.report.promises import promises
from parties.report.quantities import NARROW, count, seconds, size
from parties.report.sentences import closing, privacy, what, who

STYLES = {"chosen": "bold", "mean": "italic"}
WIDE = 96  # columns of text that the whole table needs
DISPENSABLE = ("JS remain", "time", "bytes")  # left out where the terminal is narrower


def table(metrics: Record, width: int = WIDE) -> RenderableType:
    """Return what a terminal of ``width`` columns shows: per request a table and a sentence."""
    shown: list[RenderableType] = [Text(who(metrics["run"]))]
    shown.append(Text(f"Privacy: {privacy(metrics['run'])['summary']}.\n"))
    for request in metrics["requests"] or []:
        shown.append(Text(what(request, metrics["run"]["rows"]) + "\n"))
        shown += [_methods(request, width), *_audits(request), Text(_summary(request)), Text()]
    if metrics["traffic"]:
        shown.append(_traffic(metrics["traffic"]))
    return Group(*shown)


def _summary(request: Record) -> str:
    said = [sentence for promise in promises(request) for sentence in promise.sentences]
    return " ".join([f"{outcome(request).value}. {closing(request)}", *said])


def _methods(request: Record, width: int) -> Table:
    methods = method_table(request)
    shown = [width >= WIDE or title not in DISPENSABLE for title in methods.short]
    titles = list(compress(methods.short, shown))
    grid = _grid(f"{request['name']}: every method beside Retrain", "method", titles)
    for line in methods.lines:
        cells = map(_compact, compress(line.cells, shown))
        grid.add_row(Text(line.name), *cells, style=STYLES.get(line.kind, ""))
    return grid


def _audits(request: Record) -> list[RenderableType]:
    """Return the headlines of the audits, if there are any."""
    found = audit_table(request)
    if not found.headlines:
        return []
    grid = _grid(
        "Audits beside Retrain", "figure", [found.method, "Retrain", "gap, sd", "original"]
    )
    for line in found.headlines:
        cells = (line.value, line.retrain, line.gap, line.original)
        grid.add_row(Text(line.title), *map(Text, cells))
    return [grid]


def _compact(cell: Cell) -> Text:
    """Return a figure without its gap, an AUC with half its interval."""
    return Text(f"{cell.value}{cell.margin}".replace(NARROW, " "))


def _traffic(traffic: Sequence[Record]) -> Table:
    grid = _grid("Traffic", "phase", ["time", "bytes", "messages"])
    for row in traffic:
        figures = [seconds(row["seconds"]), size(row["bytes"]), count(row["messages"])]
        grid.add_row(Text(row["phase"]), *(Text(figure) for figure in figures))
    return grid


def _grid(title: str, first: str, others: Sequence[str]) -> Table:
    """Return an empty table; names are Text throughout, so that none can be markup."""
    grid = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    grid.add_column(Text(first), no_wrap=True)
    for other in others:
        grid.add_column(Text(other), justify="right", no_wrap=True)
    return grid
