"""Checks of a forgetting study: values with requirements, and tables and plots of values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parties.experiments.bench.figures import RECORD
from parties.experiments.population.study import NULL, ORIGINAL, MethodSummary
from parties.experiments.provenance import values_digest
from unlearning.audit.epsilon import CONFIDENCE

DELIVERED = "FedORA"
RIVALS = (
    "fine-tune",
    "fine-tune, as long as FedORA",
    "gradient ascent",
    "gradient ascent, stronger",
    "ICO-like",
    "ICO-like, stronger",
    "CVFU",
)
OTHERS = ("relabel", "top-only", "shrink-perturb", "shrink-perturb, as long as FedORA")
MAX_AUC = 0.55  # of the delivered method
MIN_ORIGINAL_AUC = 0.60  # below, the audit proves nothing
MAX_NULL_GAP = 0.02  # distance of the null's AUC from 0.5
MIN_P = 0.001  # smaller p-values are shown as "p < 0.001"
VOTES = ", votes"  # suffix of populations with a sum of votes
MARKERS = {"vs_retrain": ("o", "C0", -0.15), "u_lira": ("s", "C1", 0.15)}  # marker, colour, offset
TITLES = {"vs_retrain": "vs-Retrain AUC", "u_lira": "U-LiRA AUC"}


@dataclass(frozen=True, slots=True)
class StudyCheck:
    """A value of the study and its requirement; ``ok`` is None without a requirement."""

    name: str
    value: float
    unit: str
    wanted: str = ""
    ok: bool | None = None


def study_checks(found: Sequence[MethodSummary]) -> Iterator[StudyCheck]:
    """Yield the checks of every population on which FedORA was audited."""
    by_place = {(each.population, each.name): each for each in found}
    for each in found:
        if each.name == DELIVERED:
            yield from _checks_of(each, by_place)


def symmetric_auc(auc: float) -> float:
    """Return the AUC of an attack whose direction may be reversed: max(AUC, 1 - AUC)."""
    return max(auc, 1.0 - auc)


def _checks_of(
    own: MethodSummary, found: dict[tuple[str, str], MethodSummary]
) -> Iterator[StudyCheck]:
    where = own.population
    original, null = found[where, ORIGINAL], found[where, NULL]
    for audit, title in TITLES.items():
        before, after = symmetric_auc(original.auc[audit]), symmetric_auc(own.auc[audit])
        yield StudyCheck(f"{where}: {title} of the original", before, "")
        name = f"{where}: {title} of FedORA"
        if before < MIN_ORIGINAL_AUC:
            yield StudyCheck(
                f"{name} (the original is below {MIN_ORIGINAL_AUC}: proves nothing)", after, ""
            )
        else:
            yield StudyCheck(name, after, "", f"at most {MAX_AUC}", after <= MAX_AUC)
    gap = f"{where}: FedORA's test accuracy minus Retrain's"
    yield StudyCheck(gap, own.gap, "points", "within 1", abs(own.gap) <= 1)
    if own.equivalent:
        name = (
            f"{where}: p of TOST, FedORA's test accuracy within one standard deviation of Retrain's"
        )
        yield StudyCheck(name, own.equivalent.p, f"{own.equivalent.runs} models a side")
    yield from _best(own, found)
    yield from _epsilon_bounds(original, own)
    off = abs(null.auc["vs_retrain"] - 0.5)
    limit = min(MAX_NULL_GAP, 2 * null.error["vs_retrain"])
    wanted = f"at most {limit:.3f}, two standard errors and no more than {MAX_NULL_GAP}"
    yield StudyCheck(f"{where}: null, distance of its AUC from 0.5", off, "", wanted, off <= limit)


def _best(own: MethodSummary, found: dict[tuple[str, str], MethodSummary]) -> Iterator[StudyCheck]:
    """Return the lead over the best rival (a tie below one standard error) and over all others."""
    where = own.population
    for names, kind in ((RIVALS, "rival"), (OTHERS, "other")):
        places = [(place, name) for place in (where, f"{where}, votes") for name in names]
        known = [found[place] for place in places if place in found]
        if not known:
            continue
        best = min(known, key=lambda each: symmetric_auc(each.auc["vs_retrain"]))
        behind = symmetric_auc(own.auc["vs_retrain"]) - symmetric_auc(best.auc["vs_retrain"])
        error = (own.error["vs_retrain"] ** 2 + best.error["vs_retrain"] ** 2) ** 0.5
        name = f"{where}: vs-Retrain AUC of FedORA minus that of the best {kind} ({best.name})"
        if kind == "rival":
            wanted = f"at most {error:.3f}, a standard error"
            yield StudyCheck(name, behind, "", wanted, behind <= error)
        else:
            yield StudyCheck(name, behind, "")


def _epsilon_bounds(*rows: MethodSummary) -> Iterator[StudyCheck]:
    """Return the lower bounds of ε from the audits; no bound is required."""
    for each in rows:
        name = f"{each.population}: ε of {each.name} at least"
        level, most = 100 * each.bound.confidence, each.bound.ceiling
        unit = f"at {level:.0f} %; {most:.2f} is the most to prove"
        yield StudyCheck(name, each.bound.epsilon, unit)


def study_table(found: Sequence[MethodSummary]) -> str:
    """Return all summaries as Markdown, one table per population."""
    return "\n".join(
        _table(population, [each for each in found if each.population == population])
        for population in dict.fromkeys(each.population for each in found)
    )


def _table(population: str, own: Sequence[MethodSummary]) -> str:
    lines = [
        f"### {population}\n\n{own[0].models} models and {own[0].models} Retrains per seed; "
        f"each model was trained on {own[0].training_rows:,} rows.\n",
        "| | vs-Retrain AUC | U-LiRA AUC | test accuracy minus Retrain's | equivalent "
        f"| distance to Retrain | ε at least ({100 * CONFIDENCE:.0f} %) |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in own:
        cells = [_cell(each, audit) for audit in TITLES]
        rest = [f"{each.gap:+.2f}", _equivalent(each), f"{each.distance:.2f}"]
        rest = ["", "", ""] if each.name == NULL else rest
        lines.append(f"| {each.name} | {' | '.join([*cells, *rest, _epsilon(each)])} |")
    return "\n".join(lines) + "\n"


def _cell(each: MethodSummary, audit: str) -> str:
    known = audit in each.auc
    return f"{each.auc[audit]:.3f} ± {each.error[audit]:.3f}" if known else ""


def _epsilon(each: MethodSummary) -> str:
    return f"{each.bound.epsilon:.2f} of {each.bound.ceiling:.2f}"


def _equivalent(each: MethodSummary) -> str:
    found = each.equivalent
    if found is None:
        return ""
    p = f"p {found.p:.2g}" if found.p >= MIN_P else f"p < {MIN_P}"
    return f"{'yes' if found.shown else 'not shown'}, {p}"


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """AUC and standard error of one method on a population, by audit: what the plot shows."""

    population: str
    name: str
    auc: Mapping[str, float]
    error: Mapping[str, float]


def study_points(found: Sequence[MethodSummary]) -> list[StudyPoint]:
    """Return the points of the plot."""
    return [StudyPoint(each.population, each.name, each.auc, each.error) for each in found]


def draw_study(found: Sequence[StudyPoint], path: Path) -> None:
    """Plot both AUCs of every method with standard errors, in one panel per population.

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
            axes.axvline(MAX_AUC, color="0.7", linewidth=1, linestyle=":")
            axes.set_yticks(range(len(rows)), rows if place == 0 else [""] * len(rows))
            axes.set_ylim(len(rows) - 0.5, -0.5)
            axes.set_title(name)
            axes.set_xlabel("AUC; 0.5: not distinguishable from Retrain")
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
        axes.errorbar(
            [each.auc[audit] for _, each in known],
            [row + offset for row, _ in known],
            xerr=[each.error[audit] for _, each in known],
            fmt=shape, color=colour, markersize=4, markerfacecolor=face,
            label=TITLES[audit] + (", sum of votes" if face else ""),
        )  # fmt: skip
