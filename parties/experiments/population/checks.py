"""Checks of a forgetting study: values with requirements, and tables and plots of values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parties.experiments.bench.figures import RECORD
from parties.experiments.population.audit import AUDITS, U_LIRA, VS_RETRAIN
from parties.experiments.population.part import ORIGINAL
from parties.experiments.population.plan import TRAINING
from parties.experiments.population.study import (
    NULL,
    MethodSummary,
    PopulationSummary,
    Spread,
)
from parties.experiments.provenance import values_digest
from parties.vertical.methods.fedora import ConstraintUse
from unlearning.audit.bias_curve import BiasCurve, CorrectedAuc
from unlearning.audit.epsilon import CONFIDENCE
from unlearning.audit.intervals import seed_interval

# Methods whose figures are checks.
FEDORA: Final = "FedORA"  # with the defaults
DUAL_OFF: Final = "FedORA, dual off"  # the same steps without the dual
REDRAWN: Final = "FedORA, redrawn start"
TEN: Final = "FedORA, ten requests"  # one after another
DELIVERED: Final = (FEDORA, "local Retrain")
# Wanted of FedORA: part of the trained model's excess that remains, part that the dual removes,
# loss of accuracy in points, rows of a Retrain, difference of the trigger from Retrain's in points.
REMAINING, REMOVED, LOSS, ROWS, TRIGGER = 0.5, 0.25, 1.0, 0.12, 5.0
REMAINING_BEST: Final = 1 / 3  # as REMAINING, for the better of two starts
# Wanted of ten requests against one: difference of the leak, and of the accuracy in points.
TEN_LEAK, TEN_GAP = 0.02, 0.5
ACTIVE: Final = 0.5  # iterations in which the dual is above 0
MIN_P = 0.001  # smaller p-values are shown as "p < 0.001"
VOTES = ", votes"  # suffix of populations with a sum of votes
MARKERS = {VS_RETRAIN: ("o", "C0", -0.15), U_LIRA: ("s", "C1", 0.15)}  # marker, colour, offset
COLUMNS: Final = (
    "", *AUDITS.values(), "excess", "accuracy minus Retrain's", "equivalent", "trigger", "canaries",
    "changed on D_r", "rows", "constraint", "worst row", f"ε at least ({100 * CONFIDENCE:.0f} %)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StudyCheck:
    """A value of the study and its requirement; ``ok`` is None without a requirement."""

    name: str
    value: float
    unit: str
    wanted: str = ""
    ok: bool | None = None


def study_checks(found: Sequence[PopulationSummary]) -> Iterator[StudyCheck]:
    """Yield the checks of every population."""
    for each in found:
        yield from _checks_of(each)


def _checks_of(found: PopulationSummary) -> Iterator[StudyCheck]:
    where = found.name
    for own in found.methods:
        leak, name = own.auc[U_LIRA], f"{where}: leak of {own.name}"
        interval = f"interval {leak.low:.3f} to {leak.high:.3f}"
        if own.name == NULL or own.way == TRAINING:
            yield StudyCheck(name, leak.value, interval, "the interval holds 0.5", leak.holds_half)
        elif own.name in DELIVERED:
            yield StudyCheck(name, leak.value, interval)
            gap = f"{where}: test accuracy of {own.name} minus that of Retrain"
            yield StudyCheck(gap, own.gap.mean, f"± {own.gap.error:.2f} points")
            share = f"{where}: rows of {own.name} that crossed, relative to Retrain"
            yield StudyCheck(share, own.rows, "")
    names = {each.name for each in found.methods}
    if {FEDORA, DUAL_OFF, ORIGINAL.name} <= names:
        yield from _constraint_checks(found)
    if {FEDORA, REDRAWN, ORIGINAL.name} <= names:
        left = min(_remaining(found, each) for each in (FEDORA, REDRAWN))
        title = f"{where}: {FEDORA}, the better start: part of the excess that remains"
        wanted = f"at most {REMAINING_BEST:.2f}"
        yield StudyCheck(title, left, "", wanted, left <= REMAINING_BEST)
    if {FEDORA, TEN} <= names:
        yield from _ten_checks(found)


def _remaining(found: PopulationSummary, name: str) -> float:
    """The excess leak of a method over that of the trained models."""
    excess = {each: found.method(each).auc[U_LIRA].value - 0.5 for each in (name, ORIGINAL.name)}
    return excess[name] / excess[ORIGINAL.name]


def _constraint_checks(found: PopulationSummary) -> Iterator[StudyCheck]:
    """What FedORA's constraint must show on a population."""
    own, off = found.method(FEDORA), found.method(DUAL_OFF)
    trained = found.method(ORIGINAL.name)
    where, left = f"{found.name}: {FEDORA}", _remaining(found, FEDORA)
    yield StudyCheck(f"{where}: part of the original's excess leak that remains", left, "",
                     f"at most {REMAINING}", left <= REMAINING)  # fmt: skip
    if own.leaks and len(own.leaks) == len(off.leaks):
        lowered = [a - b for a, b in zip(off.leaks, own.leaks, strict=True)]
        low, high = seed_interval(lowered)
        part = fmean(lowered) / (fmean(trained.leaks) - 0.5)
        yield StudyCheck(
            f"{where}: leak that the dual removes, of the original's excess", part,
            f"AUC lower by {low:.3f} to {high:.3f}", f"at least {REMOVED}, interval above 0",
            part >= REMOVED and low > 0,
        )  # fmt: skip
    yield StudyCheck(f"{where}: test accuracy minus Retrain's", own.gap.mean, "points",
                     f"at least -{LOSS:g}", own.gap.mean >= -LOSS)  # fmt: skip
    yield StudyCheck(f"{where}: rows that crossed, relative to Retrain", own.rows, "",
                     f"at most {ROWS}", own.rows <= ROWS)  # fmt: skip
    null = found.method(NULL).triggered
    if own.triggered and null:
        apart = own.triggered.mean - null.mean
        yield StudyCheck(f"{where}: trigger minus Retrain's", apart, "points",
                         f"within {TRIGGER:g}", abs(apart) <= TRIGGER)  # fmt: skip
    yield from _use_checks(where, own.constraint)


def _ten_checks(found: PopulationSummary) -> Iterator[StudyCheck]:
    """Ten requests, one after another, against one request about the same rows."""
    ten, one, title = found.method(TEN), found.method(FEDORA), f"{found.name}: {TEN} against one"
    leak = ten.auc[U_LIRA].value - one.auc[U_LIRA].value
    gap = ten.gap.mean - one.gap.mean
    yield StudyCheck(f"{title}, leak", leak, "", f"within {TEN_LEAK}", abs(leak) <= TEN_LEAK)
    yield StudyCheck(f"{title}, test accuracy", gap, "points", f"within {TEN_GAP}",
                     abs(gap) <= TEN_GAP)  # fmt: skip


def _use_checks(where: str, use: ConstraintUse | None) -> Iterator[StudyCheck]:
    if use is not None:
        active = use.active / use.iterations
        title = f"{where}: iterations with a dual"
        yield StudyCheck(f"{title} above 0", active, "", f"at least {ACTIVE}", active >= ACTIVE)
        most = use.at_maximum
        yield StudyCheck(f"{title} at its maximum", most, "", "0", not most)


def study_table(found: Sequence[PopulationSummary]) -> str:
    """Return all summaries as Markdown, two tables per population."""
    return "\n".join(f"{_table(each)}\n{_curve_table(each.curves)}" for each in found)


def _table(found: PopulationSummary) -> str:
    first = found.methods[0]
    lines = [
        f"### {found.name}\n\n{first.models} models and {first.models} Retrains per seed; "
        f"each model was trained on {first.training_rows:,} rows.\n",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'---|' * len(COLUMNS)}",
        *(f"| {' | '.join(_cells(each))} |" for each in found.methods),
    ]
    return "\n".join(lines) + "\n"


def _cells(own: MethodSummary) -> list[str]:
    null = own.name == NULL
    return [
        own.name,
        *(_interval(own.auc[audit]) for audit in AUDITS),
        "" if null else _spread(own.excess, "+.3f"),
        "" if null else _spread(own.gap, "+.2f"),
        _equivalent(own),
        _spread(own.triggered, ".1f"),
        _spread(own.planted, ".1f"),
        _spread(own.changed, ".1f"),
        f"{own.rows:.2f}",
        _constraint(own.constraint),
        f"{own.worst[U_LIRA]:.2f}",
        f"{own.bound.epsilon:.2f} of {own.bound.ceiling:.2f}",
    ]


def _interval(auc: CorrectedAuc) -> str:
    return f"{auc.value:.3f} ({auc.low:.3f} to {auc.high:.3f})"


def _spread(found: Spread | None, form: str) -> str:
    return "" if found is None else f"{found.mean:{form}} ± {found.error:{form.lstrip('+')}}"


def _constraint(use: ConstraintUse | None) -> str:
    if use is None:
        return ""
    if not use.active:
        return f"inactive in all {use.iterations}"
    maximum = f", at its maximum in {use.at_maximum:.3g}" if use.at_maximum else ""
    return f"active in {use.active:.3g} of {use.iterations}{maximum}"


def _equivalent(each: MethodSummary) -> str:
    found = each.equivalent
    if found is None:
        return ""
    p = f"p {found.p:.2g}" if found.p >= MIN_P else f"p < {MIN_P}"
    return f"{'yes' if found.shown else 'not shown'}, {p}"


def _curve_table(curves: Mapping[str, BiasCurve]) -> str:
    """The mean estimate of each audit by true AUC, in the layout of the table above."""
    true = curves[U_LIRA].true
    lines = [
        "Mean estimate of each audit on synthetic models with a known AUC, before the correction; "
        "the rows have a part of the squared shift in common:\n",
        f"| true AUC | {' | '.join(f'{each:.3f}' for each in true)} |",
        f"|{'---|' * (len(true) + 1)}",
        *(
            f"| {AUDITS[name]}, {share:.0%} in common | {' | '.join(f'{e:.3f}' for e in row)} |"
            for name in AUDITS
            for share, row in zip(curves[name].shares, curves[name].estimates, strict=True)
        ),
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """AUC and interval of one method on a population, by audit: what the plot shows."""

    population: str
    name: str
    auc: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]


def study_points(found: Sequence[PopulationSummary]) -> list[StudyPoint]:
    """Return the points of the plot."""
    return [
        StudyPoint(
            place.name,
            own.name,
            {name: round(auc.value, 4) for name, auc in own.auc.items()},
            {name: round(auc.low, 4) for name, auc in own.auc.items()},
            {name: round(auc.high, 4) for name, auc in own.auc.items()},
        )
        for place in found
        for own in place.methods
    ]


def draw_study(found: Sequence[StudyPoint], path: Path) -> None:
    """Plot both AUCs of every method with intervals, in one panel per population.

    The picture contains the digest of its points as text.
    """
    record = values_digest([asdict(each) for each in found])
    populations = list(dict.fromkeys(each.population.removesuffix(VOTES) for each in found))
    rows = list(dict.fromkeys(each.name for each in found))
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(4.2 * len(populations), 4.6), layout="constrained")
        for place, name in enumerate(populations):
            axes = figure.add_subplot(1, len(populations), place + 1)
            for population, face in ((name, None), (f"{name}{VOTES}", "white")):
                own = [each for each in found if each.population == population]
                placed = [(rows.index(each.name), each) for each in own]
                for audit, marker in MARKERS.items():
                    _dots(axes, placed, audit, marker, face)
            axes.axvline(0.5, color="0.5", linewidth=1)
            axes.set_yticks(range(len(rows)), rows if place == 0 else [""] * len(rows))
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(name)
            axes.set_xlabel("corrected AUC; 0.5: not distinguishable")
            axes.grid(axis="x", alpha=0.3)
        handles = {
            label: handle
            for panel in figure.axes
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=4)
        figure.savefig(path, dpi=150, metadata={"Software": None, RECORD: record})


def _dots(
    axes: Axes,
    own: Sequence[tuple[int, StudyPoint]],
    audit: str,
    marker: tuple[str, str, float],
    face: str | None,
) -> None:
    """Draw the dots of one audit of one population; ``face`` is their fill colour."""
    shape, colour, offset = marker
    known = [(row, each) for row, each in own if audit in each.auc]
    if known:
        values = [each.auc[audit] for _, each in known]
        axes.errorbar(
            values,
            [row + offset for row, _ in known],
            xerr=[
                [value - each.low[audit] for value, (_, each) in zip(values, known, strict=True)],
                [each.high[audit] - value for value, (_, each) in zip(values, known, strict=True)],
            ],
            fmt=shape, color=colour, markersize=4, markerfacecolor=face,
            label=AUDITS[audit] + (", sum of votes" if face else ""),
        )  # fmt: skip
