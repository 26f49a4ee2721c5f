"""The page of two runs side by side: settings that differ, and all figures with their difference.

A difference has an interval where the records have one: the 95 % intervals of both figures, or the
spread of the figure over the Retrains, which is the spread over seeds.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from configs.config_file import agreement_differences
from parties.common.errors import DataError
from parties.report.columns import (
    ATTACK_AUC,
    LOSS_AUC,
    MEMBERSHIP_AUC,
    Column,
    Unit,
    membership_interval,
    visible_columns,
)
from parties.report.comparison import chosen_method, method_title, method_value, retrain_reference
from parties.report.method_names import ORIGINAL
from parties.report.model_table import figure_texts
from parties.report.pages.templates import render
from parties.report.quantities import (
    NARROW,
    format_count,
    format_difference,
    format_percent,
    format_seconds,
    format_size,
)
from parties.report.record import Confusion, ModelFigures, Request, RunRecord, read_record
from parties.report.verdict import figure_name, request_verdict
from unlearning.audit.intervals import auc_interval, share_interval

_Interval = tuple[float, float] | None
_ABSENT = "–"
_LONGEST = 300  # characters of a setting on the page


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """A setting that differs between two runs."""

    name: str  # key of the setting
    first: str  # value in the first run
    second: str  # value in the second run


@dataclass(frozen=True, slots=True)
class FigureDifference:
    """A figure of two runs."""

    name: str  # name of the figure
    first: str  # value in the first run
    second: str  # value in the second run
    difference: str  # the second minus the first; a dash if one is absent
    interval: str  # whether the difference is within its interval, or that there is none


@dataclass(frozen=True, slots=True)
class RequestPair:
    """One request that both runs have."""

    name: str  # name of the request
    methods: tuple[str, str]  # title of the delivered method, by run
    verdicts: tuple[str, str]  # the verdict, by run
    figures: Sequence[FigureDifference]


def run_pair_page(first: Any, second: Any, names: tuple[str, str]) -> str:
    """Return the comparison of two runs as one HTML page without other files.

    ``first`` and ``second`` are the records of the runs as JSON values; ``names`` are the names of
    the runs on the page.

    Raises:
        DataError: one of the two is no record of a run, or their modes differ.
    """
    pair = read_record(first, names[0]), read_record(second, names[1])
    modes = [each.run.mode for each in pair]
    if modes[0] != modes[1]:
        raise DataError(
            f"{names[0]} is a run in the mode {modes[0]}, and {names[1]} one in the mode "
            f"{modes[1]}",
            "compare two runs of one mode",
        )
    return render(
        "run_pair.html",
        headline=f"{names[0]} and {names[1]}",
        names=names,
        runs=[each.run for each in pair],
        same_agreement=pair[0].run.agreement == pair[1].run.agreement,
        has_settings=all(each.run.settings is not None for each in pair),
        settings=setting_differences(*pair),
        model=model_differences(*pair),
        requests=request_pairs(*pair),
        unpaired=_unpaired(*pair),
    )


def setting_differences(first: RunRecord, second: RunRecord) -> list[SettingDifference]:
    """Return the settings that differ; of records without settings, what else they state."""
    if first.run.settings is None or second.run.settings is None:
        fields = ("seed", "guarantee", "clients", "rule", "share", "partition", "overlap", "rows")
        values = [{name: getattr(each.run, name) for name in fields} for each in (first, second)]
    else:
        values = [first.run.settings, second.run.settings]
    found = agreement_differences(*(json.dumps(each) for each in values))
    return [SettingDifference(name, _shown(a), _shown(b)) for name, a, b in found]


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def model_differences(first: RunRecord, second: RunRecord) -> list[FigureDifference]:
    """Return the figures of the trained models, then time and traffic of the runs."""
    found = [*_model_figures(first.model, second.model)]
    seconds = first.run.seconds, second.run.seconds
    sizes = [sum(each.bytes or 0 for each in record.traffic) for record in (first, second)]
    no_interval = "no interval"
    found.append(
        FigureDifference(
            "Time of the run",
            format_seconds(seconds[0]),
            format_seconds(seconds[1]),
            f"{format_difference(seconds[1] - seconds[0], 1)}{NARROW}s",
            no_interval,
        )
    )
    more = "−" if sizes[1] < sizes[0] else "+"
    found.append(
        FigureDifference(
            "Bytes of the run",
            format_size(sizes[0]),
            format_size(sizes[1]),
            f"{more}{format_size(abs(sizes[1] - sizes[0]))}",
            no_interval,
        )
    )
    return found


def _model_figures(
    first: ModelFigures | None, second: ModelFigures | None
) -> Iterator[FigureDifference]:
    if first is None or second is None:
        return
    for name, title, show in figure_texts():
        a, b = getattr(first, name), getattr(second, name)
        if a is None and b is None:
            continue
        margin = _joint_margin(
            (a, _model_interval(first, name)), (b, _model_interval(second, name))
        )
        texts = _ABSENT if a is None else show(a), _ABSENT if b is None else show(b)
        share = show is format_percent
        yield FigureDifference(title, *texts, *_difference(a, b, margin, share=share))


def _model_interval(model: ModelFigures, name: str) -> _Interval:
    """Return the 95 % interval over test rows of the AUC or the accuracy; None for the others."""
    value = getattr(model, name)
    if value is None or not model.rows:
        return None
    if name == "accuracy":
        return share_interval(round(value * model.rows), model.rows)
    classes = _class_sizes(model.confusion)
    if name == "auc" and len(classes) == 2 and all(classes):
        return auc_interval(value, classes[1], classes[0])
    return None


def _class_sizes(confusion: Confusion | None) -> list[int]:
    return [sum(row) for row in confusion.counts] if confusion else []


def request_pairs(first: RunRecord, second: RunRecord) -> list[RequestPair]:
    """Return the requests of one name in both runs; the only request of each run always is one."""
    return [
        RequestPair(
            a.name if a.name == b.name else f"{a.name} and {b.name}",
            (method_title(a), method_title(b)),
            (request_verdict(a).headline, request_verdict(b).headline),
            [*_request_figures(a, b)],
        )
        for a, b in _paired(first, second)
    ]


def _paired(first: RunRecord, second: RunRecord) -> list[tuple[Request, Request]]:
    if len(first.requests) == len(second.requests) == 1:
        return [(first.requests[0], second.requests[0])]
    others = {each.name: each for each in second.requests}
    return [(each, others[each.name]) for each in first.requests if each.name in others]


def _unpaired(first: RunRecord, second: RunRecord) -> list[str]:
    """Return the requests that only one run has."""
    pairs = _paired(first, second)
    paired = {each.name for pair in pairs for each in pair}
    return sorted({each.name for each in (*first.requests, *second.requests)} - paired)


def _request_figures(first: Request, second: Request) -> Iterator[FigureDifference]:
    own, others = visible_columns(first), visible_columns(second)
    for column in (*own, *(each for each in others if each not in own)):
        for name, title in ((ORIGINAL, "before the request"), (None, "after the request")):
            a, b = (
                method_value(each, name or each.chosen, column)
                if column.unit is not Unit.RATIO or column in shown
                else None  # another kind of ratio, which has the same place in the record
                for each, shown in ((first, own), (second, others))
            )
            if a is None and b is None:
                continue
            margin = _column_margin(column, (first, a), (second, b), name)
            texts = (
                _ABSENT if a is None else column.text(a),
                _ABSENT if b is None else column.text(b),
            )
            yield FigureDifference(
                f"{figure_name(column)}, {title}",
                *texts,
                *_difference(a, b, margin, share=column.unit is Unit.SHARE),
            )
    yield from _costs(first, second)


def _column_margin(
    column: Column,
    first: tuple[Request, float | None],
    second: tuple[Request, float | None],
    name: str | None,
) -> float | None:
    """Return how far two values may differ by chance; None without intervals.

    The intervals of a membership attack's AUC are over rows. The other figures have the spread over
    the Retrains, of which the larger one counts.
    """
    if column.source in (ATTACK_AUC.source, MEMBERSHIP_AUC.source, LOSS_AUC.source):
        return _joint_margin(
            (first[1], _attack_interval(first[0], name)),
            (second[1], _attack_interval(second[0], name)),
        )
    margins = [_seed_margin(request, column) for request, _ in (first, second)]
    known = [each for each in margins if each is not None]
    return max(known) if len(known) == 2 else None


def _seed_margin(request: Request, column: Column) -> float | None:
    reference = retrain_reference(request, column)
    return None if reference is None or not reference.judges else reference.difference


def _attack_interval(request: Request, name: str | None) -> _Interval:
    wanted = name or request.chosen
    method = next((each for each in request.methods if each.name == wanted), None)
    return None if method is None else membership_interval(method)


def _joint_margin(
    first: tuple[float | None, _Interval], second: tuple[float | None, _Interval]
) -> float | None:
    """Return the half-width of the 95 % interval of the difference of two independent figures."""
    halves = []
    for value, interval in (first, second):
        if value is None or interval is None:
            return None
        halves.append(max(value - interval[0], interval[1] - value))
    return math.hypot(*halves)


def _difference(
    first: float | None, second: float | None, margin: float | None, *, share: bool
) -> tuple[str, str]:
    """Return the difference as text, and whether it is within its interval."""
    if first is None or second is None:
        return _ABSENT, "not measured in both runs"
    scale, digits, unit = (100, 1, f"{NARROW}points") if share else (1, 3, "")
    text = f"{format_difference(scale * (second - first), digits)}{unit}"
    if margin is None:
        return text, "no interval"
    side = "within" if abs(second - first) <= margin else "outside"
    return text, f"{side} ±{scale * margin:.{digits}f}{unit}"


def _costs(first: Request, second: Request) -> Iterator[FigureDifference]:
    methods = [chosen_method(each) for each in (first, second)]
    costs = [each.cost if each else None for each in methods]
    if costs[0] is None or costs[1] is None:
        return
    for title, name, show in (
        ("Time of the method", "seconds", format_seconds),
        ("Rows of the method", "rows", format_count),
        ("Bytes of the method", "size", format_size),
    ):
        a, b = getattr(costs[0], name), getattr(costs[1], name)
        if a is None or b is None:
            continue
        ratio = f"{b / a:.2f}{NARROW}×" if a else _ABSENT
        yield FigureDifference(title, show(a), show(b), ratio, "no interval")
