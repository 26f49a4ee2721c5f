"""The page of a run for the scientist: tables and figures of all methods, and their definitions.

This module prepares the contents of ``scientist.html``. Jinja escapes every text from the record in
the page, and Matplotlib escapes every text in the charts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from configs.targets import Task
from parties.report import OFFICER
from parties.report.audits import AuditTable, audit_sentences, audit_table
from parties.report.charts import panels
from parties.report.charts.plots import Panel
from parties.report.columns import (
    FORGOTTEN_RATIO,
    OTHER_UTILITY,
    Unit,
    attack_column,
    is_vertical,
    utility_column,
)
from parties.report.comparison import (
    ComparisonResult,
    chosen_method,
    method_title,
    method_value,
    result_sentence,
    retrain_reference,
)
from parties.report.guarantee_figures import GuaranteeBlock, guarantee_blocks
from parties.report.method_names import ORIGINAL
from parties.report.method_table import Cell, MethodTable, method_table
from parties.report.pages.privacy_words import privacy_lines
from parties.report.pages.table_csv import csv_link, methods_csv
from parties.report.pages.templates import render
from parties.report.quantities import (
    NARROW,
    format_difference,
    format_number,
    format_percent,
    format_ratio,
    format_seconds,
    join_words,
)
from parties.report.record import Request, RunFacts, RunRecord, Step, Training, read_record
from parties.report.sentences import (
    audit_sentence,
    closing_sentence,
    page_headline,
    privacy_claims_of,
    request_sentence,
    run_sentence,
)
from parties.report.verdict import Verdict, request_verdict

SIGNS = {
    ComparisonResult.REACHED: "●",
    ComparisonResult.NEARER: "◐",
    ComparisonResult.NO_NEARER: "○",
    ComparisonResult.UNINFORMATIVE: "∅",
    ComparisonResult.UNDECIDED: "?",
    ComparisonResult.UNKNOWN: "?",
    ComparisonResult.GUARANTEED: "■",
}
MODES = {
    "vertical": "Vertical federated learning",
    "horizontal": "Horizontal federated learning",
    "llm": "Federated learning of a language model",
}


@dataclass(frozen=True, slots=True)
class DistanceMark:
    """A model on the distance scale; ``at`` is its position in per cent of the width."""

    kind: str  # original, chosen or retrain
    name: str
    value: str
    at: float


@dataclass(frozen=True, slots=True)
class RequestSection:
    """The contents of the page for one request."""

    request: Request  # the record of the request
    verdict: Verdict  # the verdict in plain words
    vertical: bool  # whether the run was in the vertical mode
    method: str  # title of the delivered method
    sign: str  # sign of the verdict; empty if no valid model was made
    result: str  # the result as a phrase
    rows_sentence: str  # which rows were to be forgotten
    closing: str  # the most important figures in one sentence
    audit_level: str  # the audit level, and what it cannot show; empty if no method ran
    distances: Sequence[DistanceMark]  # models on the scale of distances to Retrain
    tiles: Sequence[Cell]  # boxes with the most important figures
    table: MethodTable  # the table of all methods
    csv: str  # link with the table of all methods as CSV
    audits: AuditTable  # the table of audit values
    audit_sentences: Sequence[str]  # sentences about the audits
    beside_retrain: Sequence[Panel]  # charts of all models
    guarantees: Sequence[GuaranteeBlock]  # evidence for the method's guarantee
    steps: Sequence[Panel]  # charts of the delivered method's rounds or iterations
    recorded_steps: Sequence[Step]  # these rounds or iterations
    stopped: str | None  # why the delivered method ended early; None if unknown
    entropy: Sequence[Panel]  # histograms of the prediction entropy


def report_page(metrics: Any, officer: str = OFFICER) -> str:
    """Return the page of a run for the scientist, all figures, as one HTML page without files.

    ``metrics`` is the record of the run as JSON values; ``officer`` is the name of the officer's
    page, beside this one.

    Raises:
        DataError: ``metrics`` is no record of a run.
    """
    record = read_record(metrics)
    run = record.run
    vertical = run.mode == "vertical"
    return render(
        "scientist.html",
        headline=page_headline(record),
        other_page=officer,
        mode=MODES[run.mode],
        vertical=vertical,
        run_sentence=run_sentence(record),
        run=run,
        privacy_lines=privacy_lines(run, record.requests),
        privacy=privacy_claims_of(run),
        failure=record.failure,
        model=record.model,
        views=[_view(each, run) for each in record.requests],
        compared=any(each.has_retrains for each in record.requests),
        task=(task := _task(record)),
        training=panels.training_panels(record.training, task),
        kept=record.training.kept if record.training else None,
        absent=_absent(record.training),
        traffic=panels.traffic_panels(record.traffic, "active party" if vertical else "server"),
        peers=record.peers,
    )


def _task(record: RunRecord) -> Task:
    """Return what the model of a run predicts; the federated modes have classes."""
    if record.model is not None:
        return record.model.task
    labels = (record.run.settings or {}).get("labels")
    found: Task = labels.get("task", "classification") if labels else "classification"
    return found


def _view(request: Request, run: RunFacts) -> RequestSection:
    method, verdict, table = chosen_method(request), request_verdict(request), method_table(request)
    return RequestSection(
        request=request,
        verdict=verdict,
        vertical=is_vertical(request),
        method=method_title(request),
        sign="" if verdict.result is None else SIGNS[verdict.result],
        result=result_sentence(request),
        rows_sentence=request_sentence(request, run),
        closing=closing_sentence(request),
        audit_level=audit_sentence(request),
        distances=_distances(request),
        tiles=_tiles(request),
        table=table,
        csv=csv_link(methods_csv(table)),
        audits=audit_table(request),
        audit_sentences=audit_sentences(request),
        beside_retrain=panels.comparison_panels(request),
        guarantees=guarantee_blocks(request),
        steps=panels.step_panels(request),
        recorded_steps=method.steps if method else (),
        stopped=method.stopped if method else None,
        entropy=panels.entropy_panels(request),
    )


def _distances(request: Request) -> list[DistanceMark]:
    """Return original, delivered model and Retrain on the scale of ratios on forgotten rows."""
    before = method_value(request, ORIGINAL, FORGOTTEN_RATIO)
    after = method_value(request, request.chosen, FORGOTTEN_RATIO)
    if before is None or after is None:
        return []
    ratios = {"original": before, "chosen": after, "retrain": 1.0}
    names = {"chosen": method_title(request), "original": "Original", "retrain": "Retrain"}
    far, near = max(ratios.values()), min(ratios.values())
    return [
        DistanceMark(
            kind, names[kind], format_ratio(ratio), 100 * (far - ratio) / ((far - near) or 1.0)
        )
        for kind, ratio in ratios.items()
    ]


def _tiles(request: Request) -> list[Cell]:
    """Return the tiles for utility, attack and effort; a tile without a figure is left out."""
    tiles = [_utility_tile(request), _attack_tile(request), _effort_tile(request)]
    return [tile for tile in tiles if tile is not None]


def _utility_tile(request: Request) -> Cell | None:
    column = utility_column(request)
    before = method_value(request, ORIGINAL, column)
    after = method_value(request, request.chosen, column)
    at_retrain = retrain_reference(request, column)
    name = f"{column.title} on test rows" if column in OTHER_UTILITY else "test accuracy"
    if after is not None and before is not None and not request.has_retrains:
        return Cell(column.text(after), (f"{name}; original {column.text(before)}",))
    if after is None or at_retrain is None:
        return None
    gap = format_difference(after - at_retrain.mean, column.digits)
    if column.unit is Unit.SHARE:
        gap = f"{format_difference(100 * (after - at_retrain.mean), 1)}{NARROW}points"
    note = f"{name}: {column.text(after)}, Retrain {column.text(at_retrain.mean)}"
    return Cell(gap, (note,))


def _attack_tile(request: Request) -> Cell | None:
    column = attack_column(request)
    before = method_value(request, ORIGINAL, column)
    after = method_value(request, request.chosen, column)
    at_retrain = retrain_reference(request, column)
    if after is None:
        return None
    original = f"original {format_number(before, 2)}"
    retrain = f"Retrain {format_number(at_retrain.mean if at_retrain else None, 2)}"
    known = f"{retrain}, {original}" if request.has_retrains else original
    note = f"AUC of the membership attack; {known}"
    return Cell(format_number(after, 2), (note,))


def _effort_tile(request: Request) -> Cell | None:
    method = chosen_method(request)
    cost = method.cost if method else None
    if cost is None:
        return None
    if not request.has_retrains:
        return Cell(format_seconds(cost.seconds), ("run time of the method",))
    if cost.rows_of_retrain is not None:
        time = format_percent(cost.seconds_of_retrain, 0)
        note = f"of Retrain's rows exchanged; {time} of its time"
        return Cell(format_percent(cost.rows_of_retrain, 0), (note,))
    if cost.seconds_of_retrain is None:
        return None
    return Cell(format_percent(cost.seconds_of_retrain, 0), ("of Retrain's time",))


def _absent(training: Training | None) -> list[str]:
    """Return the rounds with absent clients."""
    steps = training.steps if training else ()
    return [f"round {each.number}: {join_words([*each.absent])}" for each in steps if each.absent]
