"""HTML report of a vertical run: one self-contained page with tables and figures.

This module prepares the contents of ``page.html``. Jinja escapes every text from the metrics in the
page, and Matplotlib escapes every text in the charts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from parties.report import figures
from parties.report.audits import AuditTable, audit_sentences, audit_table
from parties.report.comparison import (
    FORGOTTEN_RATIO,
    TEST_ACCURACY,
    ComparisonResult,
    Record,
    comparison_result,
    delivered_method,
    method_figure,
    method_title,
    nested_value,
    retrain_reference,
)
from parties.report.guarantee_figures import GuaranteeBlock, guarantee_blocks
from parties.report.method_table import Cell, MethodTable, method_table
from parties.report.plots import Panel
from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    format_size,
    join_words,
)
from parties.report.sentences import (
    closing_sentence,
    page_headline,
    parties_sentence,
    privacy_claims_of,
    request_sentence,
)

SIGNS = {
    ComparisonResult.REACHED: "●",
    ComparisonResult.NEARER: "◐",
    ComparisonResult.NO_NEARER: "○",
    ComparisonResult.UNINFORMATIVE: "∅",
    ComparisonResult.UNKNOWN: "?",
    ComparisonResult.GUARANTEED: "■",
}


@dataclass(frozen=True, slots=True)
class DistanceMark:
    """A model on the distance scale; ``at`` is its position in per cent of the width."""

    kind: str  # original, chosen or retrain
    name: str
    value: str
    at: float


@dataclass(frozen=True, slots=True)
class VerticalRequestView:
    """The contents of the page for one request."""

    request: Record
    chosen: str  # name of the delivered method
    method: str  # its title
    sign: str
    result: str
    rows_sentence: str
    closing: str
    distances: Sequence[DistanceMark]
    tiles: Sequence[Cell]
    table: MethodTable
    audits: AuditTable
    audit_sentences: Sequence[str]
    beside_retrain: Sequence[Panel]
    guarantees: Sequence[GuaranteeBlock]
    iterations: Sequence[Panel]
    entropy: Sequence[Panel]


def vertical_page(metrics: Record) -> str:
    """Return the report of a run as one HTML page without scripts or external files."""
    return (
        _templates()
        .get_template("page.html")
        .render(
            headline=page_headline(metrics),
            parties_sentence=parties_sentence(metrics["run"]),
            run=metrics["run"],
            privacy=privacy_claims_of(metrics["run"]),
            failure=metrics.get("failure"),
            views=[_view(request, metrics["run"]["rows"]) for request in metrics["requests"] or []],
            training=figures.training_panels(metrics["training"]),
            best_epoch=nested_value(metrics["training"], "best_epoch"),
            traffic=figures.traffic_panels(metrics["traffic"]),
            peers=metrics["peers"] or [],
        )
    )


@cache
def _templates() -> Environment:
    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder),
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


def _view(request: Record, rows: Record | None) -> VerticalRequestView:
    return VerticalRequestView(
        request=request,
        chosen=delivered_method(request),
        method=method_title(delivered_method(request)),
        sign=SIGNS[comparison_result(request)],
        result=comparison_result(request).value,
        rows_sentence=request_sentence(request, rows),
        closing=closing_sentence(request),
        distances=_distances(request),
        tiles=_tiles(request),
        table=method_table(request),
        audits=audit_table(request),
        audit_sentences=audit_sentences(request),
        beside_retrain=figures.comparison_panels(request),
        guarantees=guarantee_blocks(request),
        iterations=figures.iteration_panels(request),
        entropy=figures.entropy_panels(request),
    )


def _distances(request: Record) -> list[DistanceMark]:
    """Return original, delivered model and Retrain on the scale of JS ratios on forgotten rows."""
    before = method_figure(request, "original", *FORGOTTEN_RATIO.path)
    after = method_figure(request, delivered_method(request), *FORGOTTEN_RATIO.path)
    if before is None or after is None:
        return []
    ratios = {"original": before, "chosen": after, "retrain": 1.0}
    names = {
        "chosen": method_title(delivered_method(request)),
        "original": "Original",
        "retrain": "Retrain",
    }
    far, near = max(ratios.values()), min(ratios.values())
    return [
        DistanceMark(
            kind, names[kind], format_ratio(ratio), 100 * (far - ratio) / ((far - near) or 1.0)
        )
        for kind, ratio in ratios.items()
    ]


def _tiles(request: Record) -> list[Cell]:
    """Return the tiles for utility, attack and effort; a tile without a figure is left out."""
    tiles = [_utility_tile(request), _attack_tile(request), _effort_tile(request)]
    return [tile for tile in tiles if tile is not None]


def _utility_tile(request: Record) -> Cell | None:
    after = method_figure(request, delivered_method(request), *TEST_ACCURACY.path)
    at_retrain = retrain_reference(request, TEST_ACCURACY.path)
    if after is None or at_retrain is None:
        return None
    gap = f"{format_difference(100 * (after - at_retrain.mean), 1)}{NARROW}points"
    accuracies = f"{format_percent(after)} and {format_percent(at_retrain.mean)}"
    note = f"test accuracy against Retrain: {accuracies}"
    return Cell(gap, (note,))


def _attack_tile(request: Record) -> Cell | None:
    path = ("membership", "auc")
    before, after = (
        method_figure(request, "original", *path),
        method_figure(request, delivered_method(request), *path),
    )
    at_retrain = retrain_reference(request, path)
    if after is None:
        return None
    retrain = format_number(at_retrain.mean if at_retrain else None, 2)
    note = f"AUC of the membership attack; Retrain {retrain}, original"
    return Cell(format_number(after, 2), (f"{note} {format_number(before, 2)}",))


def _effort_tile(request: Record) -> Cell | None:
    cost = method_figure(request, delivered_method(request), "cost")
    if nested_value(cost, "rows_of_retrain") is None:
        return None
    time = format_percent(nested_value(cost, "seconds_of_retrain"), 0)
    note = f"of Retrain's rows exchanged; {time} of its time"
    return Cell(format_percent(cost["rows_of_retrain"], 0), (note,))
