"""Report of a horizontal run as one HTML page without external resources.

The template is ``page.html``, in the style of the vertical report. Texts from the metrics are
escaped: by Jinja in the page, and by Matplotlib in the charts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parties.report.charts.plots import Panel
from parties.report.horizontal.labels import (
    MetricColumn,
    Record,
    divergence,
    find_method,
    find_metric,
    leaving_summary,
    method_description,
    method_label,
    metric_value,
    original_differs,
    visible_columns,
)
from parties.report.horizontal.panels import loss_panels, method_panels, round_panels
from parties.report.method_names import is_retrain
from parties.report.method_table import Cell
from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_number,
    format_percent,
    format_seconds,
    format_size,
    join_words,
)


@dataclass(frozen=True, slots=True)
class MethodRow:
    """One row of the table, for one model.

    Attributes:
        name: display name of the method.
        description: what the method does.
        guarantee: what the method guarantees, such as exact unlearning. If the method diverged, the
            text names the round and the error instead.
        kind: style of the row: original, chosen, baseline or retrain.
        cells: one cell per column.
    """

    name: str
    description: str
    guarantee: str
    kind: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class RequestView:
    """Contents of the page for one request.

    Attributes:
        request: the record of the request.
        chosen: name of the chosen method.
        retrains: number of Retrain models.
        result: one sentence with the result.
        tiles: boxes that show the most important values.
        groups: heading of each group of columns, and number of columns in the group.
        titles: headings of the columns.
        rows: one table row per model.
        proofs: for each column, a text that says whether the metric can prove forgetting.
        panels: charts of all models.
        rounds: charts of the chosen method's rounds.
    """

    request: Record
    chosen: str
    retrains: int
    result: str
    tiles: Sequence[Cell]
    groups: Sequence[tuple[str, int]]
    titles: Sequence[str]
    rows: Sequence[MethodRow]
    proofs: Sequence[str]
    panels: Sequence[Panel]
    rounds: Sequence[Panel]


def horizontal_page(metrics: Record) -> str:
    """Return the report of a run as one HTML page."""
    run, views = metrics["run"], [_view(each) for each in metrics["requests"]]
    return (
        _templates()
        .get_template("page.html")
        .render(
            headline=_headline(metrics),
            run=run,
            views=views,
            training=loss_panels(metrics["training"]),
            absent=_absent(metrics["training"]),
            peers=metrics["peers"] or [],
        )
    )


@cache
def _templates() -> Environment:
    here = Path(__file__).parent
    folders = [here, here.parents[1] / "report"]  # the second one has the common style
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=format_count,
        listing=join_words,
        number=format_number,
        seconds=format_seconds,
        share=format_percent,
        size=format_size,
    )
    return environment


def _headline(metrics: Record) -> str:
    name, requests = metrics["run"]["federation"], metrics["requests"]
    if not requests:
        return f"{name}: trained, no unlearning request"
    if len(requests) > 1:
        return f"{name}: {len(requests)} requests"
    return f"{name}: {leaving_summary(requests[0])}"


def _view(request: Record) -> RequestView:
    columns = visible_columns(request)
    groups = [(title, len(list(some))) for title, some in groupby(each.group for each in columns)]
    return RequestView(
        request=request,
        chosen=method_label(request["chosen"]),
        retrains=sum(is_retrain(each["name"]) for each in request["methods"]),
        result=_result(request),
        tiles=_tiles(request),
        groups=[*groups, ("Cost", 2)],
        titles=[*(each.title for each in columns), "time", "bytes"],
        rows=[_row(request, each, columns) for each in request["methods"]],
        proofs=[_proof(request, each) for each in columns],
        panels=method_panels(request),
        rounds=round_panels(request),
    )


def _result(request: Record) -> str:
    """The result in one sentence: the first metric that can prove forgetting."""
    if not request["leaving"]:
        return "No client had such rows: the model did not change."
    chosen = find_method(request, request["chosen"])
    found = [
        each
        for each in visible_columns(request)
        if each.forgets and original_differs(request, each)
    ]
    if not found and sum(is_retrain(each["name"]) for each in request["methods"]) < 2:
        return (
            "With one Retrain the spread of the metrics is unknown, so no metric can prove "
            "forgetting; set unlearning.retrains to at least 2."
        )
    if not found:
        return (
            "No metric separates the original model from a Retrain, so this run proves neither "
            "forgetting nor its absence."
        )
    column = found[0]
    before, after = (
        metric_value(find_method(request, n), column.metric)
        for n in ("original", request["chosen"])
    )
    metric = find_metric(chosen, column.metric)
    at_retrain = None if metric is None else metric["retrain_mean"]
    return (
        f"{method_label(request['chosen'])} changed “{column.title}” from {column.text(before)} "
        f"to {column.text(after)}; a Retrain has {column.text(at_retrain)}."
    )


def _tiles(request: Record) -> list[Cell]:
    chosen = find_method(request, request["chosen"])
    accuracy, auc = find_metric(chosen, "client_accuracy"), find_metric(chosen, "membership_auc")
    tiles = []
    if accuracy is not None and accuracy["gap"] is not None:
        value, retrain = accuracy["value"], accuracy["retrain_mean"]
        gap = f"{format_difference(100 * accuracy['gap'], 1)}{NARROW}points"
        note = f"test accuracy: {format_percent(value)}, Retrain {format_percent(retrain)}"
        tiles.append(Cell(gap, (note,)))
    if auc is not None and auc["value"] is not None:
        at_retrain = format_number(auc["retrain_mean"], 2)
        note = f"AUC of the membership inference attack; Retrain {at_retrain}"
        tiles.append(Cell(format_number(auc["value"], 2), (note,)))
    part = _of_retrain(request, chosen)
    if part is not None:
        tiles.append(Cell(format_percent(part, 0), ("of Retrain's time",)))
    return tiles


def _of_retrain(request: Record, method: Record) -> float | None:
    retrains = [each["seconds"] for each in request["methods"] if is_retrain(each["name"])]
    if not retrains or not sum(retrains):
        return None
    found: float = method["seconds"] * len(retrains) / sum(retrains)
    return found


def _row(request: Record, method: Record, columns: Sequence[MetricColumn]) -> MethodRow:
    name = method["name"]
    kind = "original" if name == "original" else "retrain" if is_retrain(name) else "baseline"
    kind = "chosen" if name == request["chosen"] else kind
    cells = [_cell(method, each) for each in columns]
    if name == "original":
        cost = [Cell("–"), Cell("–")]
    else:
        part = _of_retrain(request, method)
        notes = (
            () if part is None or is_retrain(name) else (f"{format_percent(part, 0)} of Retrain’s",)
        )
        cost = [Cell(format_seconds(method["seconds"]), notes), Cell(format_size(method["size"]))]
    guarantee = divergence(method) or method["guarantee"] or ""
    return MethodRow(method_label(name), method_description(name), guarantee, kind, [*cells, *cost])


def _cell(method: Record, column: MetricColumn) -> Cell:
    found = find_metric(method, column.metric)
    if found is None or found["value"] is None:
        return Cell("–")
    notes = [] if is_retrain(method["name"]) else [column.gap(found)]
    if found["status"] == "insufficient_n":
        notes.append(f"n = {found['n']}: too few")
    return Cell(column.text(found["value"]), [each for each in notes if each])


def _proof(request: Record, column: MetricColumn) -> str:
    if not column.forgets:
        return ""
    known = original_differs(request, column)
    if known is None:
        return "unknown: needs two Retrains"
    return "yes" if known else "no: the original has Retrain’s value already"


def _absent(training: Record) -> list[str]:
    """Rounds with absent clients."""
    return [
        f"round {each['round'] + 1}: {join_words(each['absent'])}"
        for each in training["rounds"]
        if each["absent"]
    ]
