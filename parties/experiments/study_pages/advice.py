"""The generated parts of docs/forgetting.md: a small table, and the sentences with figures."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.plan import ORIGINAL
from parties.experiments.population.summary import NULL, MethodSummary, PopulationSummary, Spread
from parties.experiments.study_pages.checks import DUAL_OFF, FEDORA, LOCAL
from parties.experiments.study_pages.figure import OTHER, kind_of

VOTES: Final = ", votes"  # suffix of populations with a sum of votes, which allows few methods
# Rows of the small table, with the names that it shows.
SHOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        ORIGINAL.name: "trained model, before the request",
        NULL: "Retrain",
        LOCAL: "local Retrain (`retrain-local`, exact)",
        "short Retrain": "short Retrain (`short-retrain`, exact)",
        FEDORA: "**FedORA**",
        DUAL_OFF: DUAL_OFF,
        "fine-tune": "fine-tune",
        "early checkpoint, fine-tuned": "early checkpoint, fine-tuned",
    }
)
COLUMNS: Final = (
    "data set", "method", "leak", "accuracy minus Retrain's", "trigger left",
    "predictions changed", "rows",
)  # fmt: skip
LOSS: Final = 1.0  # of accuracy, in points: methods that lose more are no rivals


def advice_table(found: Sequence[PopulationSummary]) -> str:
    """Return the small table as Markdown: a few methods of every data set."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for place in _data_sets(found):
        for at, (name, shown) in enumerate(SHOWN.items()):
            where = f"**{place.name}**" if at == 0 else ""
            lines.append(f"| {' | '.join([where, shown, *_cells(_row(place, name))])} |")
    return "\n".join(lines)


def local_sentence(found: Sequence[PopulationSummary]) -> str:
    """Return how close the accuracy of ``retrain-local`` is to that of Retrain."""
    gaps = {place.name: own.gap.mean for place in _data_sets(found) if (own := _row(place, LOCAL))}
    if not gaps:
        return "`retrain-local` is not measured."
    listed = "; ".join(f"{name} {_signed(gap)}" for name, gap in gaps.items())
    far = [name for name, gap in gaps.items() if gap < -LOSS]
    verdict = (
        f"it loses more than a point on {_and(far)}" if far else "it loses no more than a point"
    )
    return f"Its accuracy minus Retrain's in points: {listed}. So {verdict}."


def changed_sentence(found: Sequence[PopulationSummary]) -> str:
    """Return how many remaining predictions FedORA and ``retrain-local`` change."""
    both = {
        place.name: (own.changed.mean, local.changed.mean)
        for place in _data_sets(found)
        if (own := _row(place, FEDORA)) and (local := _row(place, LOCAL))
    }
    if not both:
        return "FedORA is not measured."
    listed = "; ".join(f"{name} {a:.1f} % and {b:.1f} %" for name, (a, b) in both.items())
    fewer = [name for name, (a, b) in both.items() if a < b]
    where = "on every data set" if len(fewer) == len(both) else f"on {_and(fewer)} only"
    verdict = f"FedORA changes fewer {where}" if fewer else "FedORA does not change fewer"
    return f"Changed predictions after FedORA and after `retrain-local`: {listed}. So {verdict}."


def rival_list(found: Sequence[PopulationSummary]) -> str:
    """Return the other approximate methods that leak less than FedORA, a line for each data set."""
    return "\n".join(f"* **{place.name}**: {_rivals(place)}" for place in _data_sets(found))


# The parts of the page, by the name that the page uses.
PARTS: Final[Mapping[str, Callable[[Sequence[PopulationSummary]], str]]] = MappingProxyType(
    {
        "table": advice_table,
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


def _cells(own: MethodSummary | None) -> Iterator[str]:
    """The cells of a row after its name; a method that was not measured has only one."""
    if own is None:
        yield from ("not measured", "", "", "", "")
        return
    leak = own.auc[U_LIRA]
    yield f"{leak.value:.2f} ({leak.low:.2f} to {leak.high:.2f})"
    yield "0" if own.name == NULL else _signed(own.gap.mean)
    yield _share(own.triggered)
    yield _share(own.changed)
    yield f"{own.rows:.2f}"


def _rivals(place: PopulationSummary) -> str:
    own = _row(place, FEDORA)
    if own is None:
        return "FedORA is not measured."
    leak = _leak(own)
    better = [
        each
        for each in place.methods
        if kind_of(each) == OTHER
        and _leak(each) < leak and each.gap.mean >= -LOSS
    ]  # fmt: skip
    better.sort(key=lambda each: each.rows)
    cheap = [each for each in better if each.rows <= own.rows]
    dear = [each for each in better if each.rows > own.rows]
    text = f"FedORA leaks {leak:.2f} for {own.rows:.2f} of a Retrain's rows."
    text += f" With at most as many rows, {_listed(cheap) or 'no method'} leaks less."
    return text + (f" With more rows: {_listed(dear)}." if dear else "")


def _leak(own: MethodSummary) -> float:
    """The leak as the table shows it: smaller differences count for nothing."""
    return round(own.auc[U_LIRA].value, 2)


def _listed(rows: Sequence[MethodSummary]) -> str:
    return "; ".join(
        f"*{each.name}* ({_leak(each):.2f} for {each.rows:.2f}, accuracy {_signed(each.gap.mean)})"
        for each in rows
    )


def _signed(points: float) -> str:
    return f"{round(points, 1) + 0.0:+.1f}".replace("-", "−")


def _share(found: Spread | None) -> str:
    """A percentage of at least 0: below 0 the trigger works by chance alone."""
    return "" if found is None else f"{max(found.mean, 0.0):.{0 if found.mean >= 9.95 else 1}f} %"


def _and(names: Sequence[str]) -> str:
    return " and ".join(names)
