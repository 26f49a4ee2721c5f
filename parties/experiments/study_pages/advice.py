"""The generated parts of docs/forgetting.md: small tables, and the sentences with figures."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean, median
from types import MappingProxyType
from typing import Final

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.plan import ORIGINAL
from parties.experiments.population.summary import NULL, MethodSummary, PopulationSummary
from parties.experiments.study_pages.checks import DUAL_OFF, FEDORA, LOCAL
from parties.experiments.study_pages.figure import EXACT, OTHER, kind_of

VOTES: Final = ", votes"  # suffix of populations with a sum of votes, which allows few methods
SHORT: Final = "short Retrain"
# Columns of the small tables, with the names that they show.
SHOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        ORIGINAL.name: "trained model",
        NULL: "Retrain",
        LOCAL: "`retrain-local`",
        SHORT: "`short-retrain`",
        FEDORA: "**FedORA**",
        DUAL_OFF: "dual off",
        "fine-tune": "fine-tune",
        "early checkpoint, fine-tuned": "early checkpoint, fine-tuned",
    }
)
LOSS: Final = 1.0  # of accuracy, in points: methods that lose more are no rivals
Cell = Callable[[MethodSummary], str]


def leak_cell(own: MethodSummary) -> str:
    """The leak with two digits."""
    return f"{_leak(own):.2f}"


def accuracy_cell(own: MethodSummary) -> str:
    """The accuracy minus Retrain's, in points."""
    return "0" if own.name == NULL else _signed(own.gap.mean)


def trigger_cell(own: MethodSummary) -> str:
    """The trigger that is left, at least 0: below 0 it works by chance alone."""
    if own.triggered is None:
        return ""
    left = max(own.triggered.mean, 0.0)
    return f"{left:.{0 if left >= 9.95 else 1}f} %"


def rows_cell(own: MethodSummary) -> str:
    """The rows that are exchanged, relative to Retrain's."""
    return f"{own.rows:.2f}"


def advice_table(cell: Cell, found: Sequence[PopulationSummary]) -> str:
    """Return a small table as Markdown: one figure of a few methods on every data set.

    A data set on which no method has the figure is left out.
    """
    columns = ("data set", *SHOWN.values())
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for place in _data_sets(found):
        rows = [_row(place, name) for name in SHOWN]
        cells = ["not measured" if own is None else cell(own) for own in rows]
        if any(cell(own) for own in rows if own):
            lines.append(f"| {' | '.join([place.name, *cells])} |")
    return "\n".join(lines)


def exact_sentence(found: Sequence[PopulationSummary]) -> str:
    """Return how much the measured leaks of methods that cannot leak differ from 0.5."""
    exact = [
        own
        for place in _data_sets(found)
        for own in place.methods
        if kind_of(own) == EXACT and own.name in SHOWN
    ]
    if not exact:
        return "No exact method is measured."
    leaks = [_leak(own) for own in exact]
    intervals = [own.auc[U_LIRA] for own in exact]
    held = sum(each.low <= 0.5 <= each.high for each in intervals)
    every = [own.auc[U_LIRA] for place in _data_sets(found) for own in place.methods]
    width = median(each.high - each.low for each in every)
    return (
        f"Retrain, `retrain-local` and `short-retrain` never see the rows, so their leak is 0.5. "
        f"Their measured leaks of {min(leaks):.2f} to {max(leaks):.2f} show the error of the "
        f"measurement: half of its 95 % intervals over seeds are wider than {width:.2f}, and "
        f"{held} of the {len(intervals)} intervals of these methods contain 0.5."
    )


def local_sentence(found: Sequence[PopulationSummary]) -> str:
    """Return how close the accuracy of ``retrain-local`` is to that of Retrain."""
    gaps = {place.name: own.gap.mean for place in _data_sets(found) if (own := _row(place, LOCAL))}
    if not gaps:
        return "`retrain-local` is not measured."
    far = [f"{name} ({_signed(gap)})" for name, gap in gaps.items() if gap < -LOSS]
    where = f" except on {_and(far)}" if far else ""
    return f"It loses at most one point of accuracy against Retrain{where}."


def changed_sentence(found: Sequence[PopulationSummary]) -> str:
    """Return how many remaining predictions FedORA and ``retrain-local`` change."""
    both = {
        place.name: (own.changed.mean, local.changed.mean)
        for place in _data_sets(found)
        if (own := _row(place, FEDORA)) and (local := _row(place, LOCAL))
    }
    if not both:
        return "FedORA is not measured."
    means = [fmean(each) for each in zip(*both.values(), strict=True)]
    fewer = [name for name, (a, b) in both.items() if a < b]
    where = "on every data set" if len(fewer) == len(both) else f"on {_and(fewer)} only"
    verdict = f"FedORA changes fewer {where}" if fewer else "FedORA does not change fewer"
    return f"{verdict}: {means[0]:.1f} % on average, and `retrain-local` {means[1]:.1f} %."


def rival_list(found: Sequence[PopulationSummary]) -> str:
    """Return the data sets on which another approximate method leaks less, a line per method."""
    places = [place for place in _data_sets(found) if _row(place, FEDORA)]
    names = dict.fromkeys(
        own.name for place in places for own in place.methods if kind_of(own) == OTHER
    )
    lines = [line for name in names if (line := _rival(name, places))]
    return "\n".join(lines) or "No other approximate method that is measured leaks less."


# The parts of the page, by the name that the page uses.
PARTS: Final[Mapping[str, Callable[[Sequence[PopulationSummary]], str]]] = MappingProxyType(
    {
        "leak": partial(advice_table, leak_cell),
        "accuracy": partial(advice_table, accuracy_cell),
        "trigger": partial(advice_table, trigger_cell),
        "rows": partial(advice_table, rows_cell),
        "exact": exact_sentence,
        "local": local_sentence,
        "changed": changed_sentence,
        "rivals": rival_list,
    }
)


def _data_sets(found: Sequence[PopulationSummary]) -> list[PopulationSummary]:
    """The populations without those that have a sum of votes."""
    return [each for each in found if not each.name.endswith(VOTES)]


def _row(place: PopulationSummary, name: str) -> MethodSummary | None:
    return next((each for each in place.methods if each.name == name), None)


def _rival(name: str, places: Sequence[PopulationSummary]) -> str:
    """A line about one method; empty if it leaks less nowhere, or loses too much accuracy.

    Less means less before the correction, too, which depends on an estimate for each method.
    """
    both = [(place, _row(place, FEDORA), _row(place, name)) for place in places]
    measured = [(place, own, other) for place, own, other in both if own and other]
    less = [
        (place, other)
        for place, own, other in measured
        if _leak(other) < _leak(own)
        and other.auc[U_LIRA].estimate < own.auc[U_LIRA].estimate
        and other.gap.mean >= -LOSS
    ]
    if not less:
        return ""
    listed = "; ".join(
        f"{place.name} ({_leak(other):.2f} for {other.rows:.2f})" for place, other in less
    )
    sets = "data set" if len(measured) == 1 else "data sets"
    return f"* *{name}*, on {len(less)} of {len(measured)} {sets}: {listed}."


def _leak(own: MethodSummary) -> float:
    """The leak as the tables show it."""
    return round(own.auc[U_LIRA].value, 2)


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "−")


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
