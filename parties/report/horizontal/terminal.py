"""What the terminal shows of a horizontal run: every model beside Retrain."""

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from parties.report.horizontal.labels import Record, diverged, label, shown, value, who
from parties.report.quantities import seconds


def table(metrics: Record) -> Group:
    """One table for every request."""
    return Group(*(_request(each) for each in metrics["requests"]))


def _request(request: Record) -> Table:
    columns = [each for each in shown(request) if each.short]
    drawn = Table(
        title=f"{request['name']}: {who(request)}",
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
        known = ((column, value(each, column.figure)) for column in columns)
        cells = ["" if found is None else column.text(found) for column, found in known]
        took = "" if each["name"] == "original" else seconds(each["seconds"])
        stopped = " (diverged)" if diverged(each) else ""
        name = f"{label(each['name'])}{' *' * chosen}{stopped}"
        drawn.add_row(name, *cells, took, style="bold" if chosen else None)
    return drawn
