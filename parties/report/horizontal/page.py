"""The report of a horizontal run as one self-contained page.

Laid out by ``page.html`` in the style of the vertical report; what comes from the metrics is
escaped, by Jinja in the page and by Matplotlib in the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parties.horizontal.evaluation.metrics import is_retrain
from parties.report.horizontal.labels import (
    Column,
    Record,
    diverged,
    figure,
    label,
    meaning,
    of,
    proves,
    shown,
    value,
    who,
)
from parties.report.horizontal.panels import method_panels, training_panels, turn_panels
from parties.report.method_table import Cell
from parties.report.plots import Panel
from parties.report.quantities import (
    NARROW,
    count,
    listing,
    number,
    seconds,
    share,
    signed,
    size,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One model in the table."""

    name: str
    meaning: str
    guarantee: str
    kind: str  # how it is set off: original, chosen, baseline or retrain
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows of one request."""

    request: Record
    chosen: str
    retrains: int
    verdict: str
    tiles: Sequence[Cell]
    groups: Sequence[tuple[str, int]]
    titles: Sequence[str]
    lines: Sequence[Line]
    proofs: Sequence[str]
    panels: Sequence[Panel]
    turns: Sequence[Panel]


def page(metrics: Record) -> str:
    """Return the report of a run as HTML that needs nothing else."""
    run, views = metrics["run"], [_view(each) for each in metrics["requests"]]
    return (
        _templates()
        .get_template("page.html")
        .render(
            headline=_headline(metrics),
            run=run,
            views=views,
            training=training_panels(metrics["training"]),
            absent=_absent(metrics["training"]),
            peers=metrics["peers"] or [],
        )
    )


@cache
def _templates() -> Environment:
    here = Path(__file__).parent
    folders = [here, here.parents[1] / "report"]  # whose style it shares
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count, listing=listing, number=number, seconds=seconds, share=share, size=size
    )
    return environment


def _headline(metrics: Record) -> str:
    name, requests = metrics["run"]["federation"], metrics["requests"]
    if not requests:
        return f"{name}: trained, and nobody left"
    if len(requests) > 1:
        return f"{name}: {len(requests)} requests"
    return f"{name}: {who(requests[0])}"


def _view(request: Record) -> View:
    columns = shown(request)
    groups = [(title, len(list(some))) for title, some in groupby(each.group for each in columns)]
    return View(
        request=request,
        chosen=label(request["chosen"]),
        retrains=sum(is_retrain(each["name"]) for each in request["methods"]),
        verdict=_verdict(request),
        tiles=_tiles(request),
        groups=[*groups, ("Effort", 2)],
        titles=[*(each.title for each in columns), "time", "bytes"],
        lines=[_line(request, each, columns) for each in request["methods"]],
        proofs=[_proof(request, each) for each in columns],
        panels=method_panels(request),
        turns=turn_panels(request),
    )


def _verdict(request: Record) -> str:
    """The sentence to remember: the best column that can prove anything, and what it cost."""
    if not request["leaving"]:
        return "Nobody had such rows: the model stays as it is."
    chosen = of(request, request["chosen"])
    found = [each for each in shown(request) if each.forgets and proves(request, each)]
    if not found and sum(is_retrain(each["name"]) for each in request["methods"]) < 2:
        return (
            "One Retrain has no spread, so nothing says which figure tells the original from it: "
            "unlearning.retrains = 2 or more give a verdict."
        )
    if not found:
        return (
            "No figure tells the original from a Retrain here, so nothing can be shown: "
            "the run proves neither forgetting nor its absence."
        )
    column = found[0]
    before, after = (value(of(request, n), column.figure) for n in ("original", request["chosen"]))
    beside = figure(chosen, column.figure)
    at_retrain = None if beside is None else beside["retrain_mean"]
    return (
        f"{label(request['chosen'])} took “{column.title}” from {column.text(before)} to "
        f"{column.text(after)}; a Retrain has {column.text(at_retrain)}."
    )


def _tiles(request: Record) -> list[Cell]:
    chosen = of(request, request["chosen"])
    right, auc = figure(chosen, "client_accuracy"), figure(chosen, "membership_auc")
    tiles = []
    if right is not None and right["gap"] is not None:
        both = f"{share(right['value'])} and {share(right['retrain_mean'])}"
        gap = f"{signed(100 * right['gap'], 1)}{NARROW}points"
        tiles.append(Cell(gap, (f"those who stay against Retrain: {both}",)))
    if auc is not None and auc["value"] is not None:
        at_retrain = number(auc["retrain_mean"], 2)
        note = f"AUC of the membership attack; Retrain {at_retrain}"
        tiles.append(Cell(number(auc["value"], 2), (note,)))
    part = _of_retrain(request, chosen)
    if part is not None:
        tiles.append(Cell(share(part, 0), ("of Retrain's time",)))
    return tiles


def _of_retrain(request: Record, method: Record) -> float | None:
    anew = [each["seconds"] for each in request["methods"] if is_retrain(each["name"])]
    if not anew or not sum(anew):
        return None
    found: float = method["seconds"] * len(anew) / sum(anew)
    return found


def _line(request: Record, method: Record, columns: Sequence[Column]) -> Line:
    name = method["name"]
    kind = "original" if name == "original" else "retrain" if is_retrain(name) else "baseline"
    kind = "chosen" if name == request["chosen"] else kind
    cells = [_cell(method, each) for each in columns]
    if name == "original":
        effort = [Cell("–"), Cell("–")]
    else:
        part = _of_retrain(request, method)
        beside = () if part is None or is_retrain(name) else (f"{share(part, 0)} of Retrain’s",)
        effort = [Cell(seconds(method["seconds"]), beside), Cell(size(method["size"]))]
    guarantee = diverged(method) or method["guarantee"] or ""
    return Line(label(name), meaning(name), guarantee, kind, [*cells, *effort])


def _cell(method: Record, column: Column) -> Cell:
    found = figure(method, column.figure)
    if found is None or found["value"] is None:
        return Cell("–")
    notes = [] if is_retrain(method["name"]) else [column.gap(found)]
    if found["status"] == "insufficient_n":
        notes.append(f"n = {found['n']}: too few")
    return Cell(column.text(found["value"]), [each for each in notes if each])


def _proof(request: Record, column: Column) -> str:
    if not column.forgets:
        return ""
    known = proves(request, column)
    if known is None:
        return "unknown: takes two Retrains"
    return "yes" if known else "no: the original already meets it"


def _absent(training: Record) -> list[str]:
    """Which rounds went on without whom."""
    return [
        f"round {each['round'] + 1}: {listing(each['absent'])}"
        for each in training["rounds"]
        if each["absent"]
    ]
