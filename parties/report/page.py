"""The report as one self-contained page: what happened, the table, the figures, the doubts.

``page.html`` lays out, ``page.css`` colours; here the metrics become what they show. Everything
that comes from the metrics is escaped: by Jinja in the page, by Matplotlib in the figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parties.report import figures
from parties.report.audit_sentences import audit_sentences
from parties.report.audit_table import AuditTable, audit_table
from parties.report.comparison import (
    FORGOTTEN_RATIO,
    TEST_ACCURACY,
    Outcome,
    Record,
    chosen,
    figure,
    label,
    look,
    outcome,
    reference,
)
from parties.report.method_table import Cell, MethodTable, method_table
from parties.report.plots import Panel
from parties.report.promises import Promise, promises
from parties.report.quantities import (
    NARROW,
    count,
    listing,
    number,
    seconds,
    share,
    signed,
    size,
    times,
)
from parties.report.sentences import closing, headline, privacy, what, who

SIGNS = {
    Outcome.REACHED: "●",
    Outcome.NEARER: "◐",
    Outcome.NO_NEARER: "○",
    Outcome.MOOT: "∅",
    Outcome.UNKNOWN: "?",
    Outcome.PROMISED: "■",
}


@dataclass(frozen=True, slots=True)
class Stop:
    """A place on the way from the original (0) to Retrain (100)."""

    kind: str  # original, chosen or retrain
    name: str
    value: str
    at: float


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows of one request."""

    request: Record
    chosen: str
    method: str  # as people read it
    sign: str
    outcome: str
    what: str
    closing: str
    way: Sequence[Stop]
    tiles: Sequence[Cell]
    table: MethodTable
    audited: AuditTable
    audit_sentences: Sequence[str]
    beside_retrain: Sequence[Panel]
    promises: Sequence[Promise]
    course: Sequence[Panel]
    entropy: Sequence[Panel]


def page(metrics: Record) -> str:
    """Return the report of a run as HTML that needs nothing else: no script, no second file."""
    return (
        _templates()
        .get_template("page.html")
        .render(
            headline=headline(metrics),
            who=who(metrics["run"]),
            run=metrics["run"],
            privacy=privacy(metrics["run"]),
            failure=metrics.get("failure"),
            views=[_view(request, metrics["run"]["rows"]) for request in metrics["requests"] or []],
            training=figures.training_panels(metrics["training"]),
            best_epoch=look(metrics["training"], "best_epoch"),
            traffic=figures.traffic_panels(metrics["traffic"]),
            peers=metrics["peers"] or [],
        )
    )


@cache
def _templates() -> Environment:
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=count, listing=listing, number=number, seconds=seconds, share=share, size=size
    )
    return environment


def _view(request: Record, rows: Record | None) -> View:
    return View(
        request=request,
        chosen=chosen(request),
        method=label(chosen(request)),
        sign=SIGNS[outcome(request)],
        outcome=outcome(request).value,
        what=what(request, rows),
        closing=closing(request),
        way=_way(request),
        tiles=_tiles(request),
        table=method_table(request),
        audited=audit_table(request),
        audit_sentences=audit_sentences(request),
        beside_retrain=figures.comparison_panels(request),
        promises=promises(request),
        course=figures.iteration_panels(request),
        entropy=figures.entropy_panels(request),
    )


def _way(request: Record) -> list[Stop]:
    """Return how far the chosen method went to Retrain, by JS ratio on forgotten rows."""
    before = figure(request, "original", *FORGOTTEN_RATIO.path)
    after = figure(request, chosen(request), *FORGOTTEN_RATIO.path)
    if before is None or after is None:
        return []
    ratios = {"original": before, "chosen": after, "retrain": 1.0}
    names = {"chosen": label(chosen(request)), "original": "Original", "retrain": "Retrain"}
    far, near = max(ratios.values()), min(ratios.values())
    return [
        Stop(kind, names[kind], times(ratio), 100 * (far - ratio) / ((far - near) or 1.0))
        for kind, ratio in ratios.items()
    ]


def _tiles(request: Record) -> list[Cell]:
    """Return the three figures to see first after the distance: utility, attack, effort."""
    tiles = [_utility_tile(request), _attack_tile(request), _effort_tile(request)]
    return [tile for tile in tiles if tile is not None]


def _utility_tile(request: Record) -> Cell | None:
    after = figure(request, chosen(request), *TEST_ACCURACY.path)
    at_retrain = reference(request, TEST_ACCURACY.path)
    if after is None or at_retrain is None:
        return None
    gap = f"{signed(100 * (after - at_retrain.mean), 1)}{NARROW}points"
    beside = f"test accuracy against Retrain: {share(after)} and {share(at_retrain.mean)}"
    return Cell(gap, (beside,))


def _attack_tile(request: Record) -> Cell | None:
    path = ("membership", "auc")
    before, after = figure(request, "original", *path), figure(request, chosen(request), *path)
    at_retrain = reference(request, path)
    if after is None:
        return None
    retrain = number(at_retrain.mean if at_retrain else None, 2)
    beside = f"AUC of the membership attack; Retrain {retrain}, original"
    return Cell(number(after, 2), (f"{beside} {number(before, 2)}",))


def _effort_tile(request: Record) -> Cell | None:
    cost = figure(request, chosen(request), "cost")
    if look(cost, "rows_of_retrain") is None:
        return None
    took = share(look(cost, "seconds_of_retrain"), 0)
    beside = f"of Retrain's rows exchanged; {took} of its time"
    return Cell(share(cost["rows_of_retrain"], 0), (beside,))
