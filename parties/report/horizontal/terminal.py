"""Terminal table of a horizontal run: every model in comparison with Retrain."""

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from parties.report.horizontal.labels import (
    Record,
    divergence,
    leaving_summary,
    method_label,
    metric_value,
    visible_columns,
)
from parties.report.quantities import format_seconds


def horizontal_table(metrics: Record) -> Group:
    """Return one table per request."""
    return Group(*(_request(each) for each in metrics["requests"]))


def _request(request: Record) -> Table:
    columns = [each for each in visible_columns(request) if each.short]
    drawn = Table(
        title=f"{request['name']}: {leaving_summary(request)}",
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    drawn.add_column("", no_wrap=True, min_width=10)
    for column in columns:
        drawn.add_column(column.short, justify="right", no_wrap=True)
    drawn.add_column("time", justify="right", no_wrap=True)
    for each in request["methods"]:
        chosen = each["name"] == request["chosen"]
        known = ((column, metric_value(each, column.metric)) for column in columns)
        cells = ["" if found is None else column.text(found) for column, found in known]
        took = "" if each["name"] == "original" else format_seconds(each["seconds"])
        stopped = " (diverged)" if divergence(each) else ""
        name = f"{method_label(each['name'])}{' *' * chosen}{stopped}"
        drawn.add_row(name, *cells, took, style="bold" if chosen else None)
    return drawn
