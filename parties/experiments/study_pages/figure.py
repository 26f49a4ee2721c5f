"""The figure of a forgetting study: leak against exchanged rows, one panel per population."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil, cos, pi, sin
from pathlib import Path
from typing import Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox, BboxBase

from parties.experiments.bench.figures import RECORD
from parties.experiments.population.audit import U_LIRA
from parties.experiments.population.plan import ORIGINAL, PRIMAL_DUAL, RETRAIN, TRAINING
from parties.experiments.population.summary import NULL, MethodSummary, PopulationSummary
from parties.experiments.provenance import values_digest
from parties.experiments.study_pages.checks import FEDORA
from parties.vertical.methods.registry import METHODS
from unlearning.guarantee import Guarantee

TRAINED, EXACT, PRIMAL, OTHER = "trained", "exact", "FedORA", "other"  # kinds of rows
# Of each kind: text of the legend, marker, colour (of Okabe and Ito) and size of the marker.
STYLES: Final = {
    PRIMAL: ("FedORA", "*", "#d55e00", 9.0),
    EXACT: ("exact: never saw the rows", "s", "#009e73", 5.0),
    OTHER: ("other approximate methods", "o", "#0072b2", 5.0),
    TRAINED: ("trained model, before the request", "X", "black", 6.0),
}
LABELS: Final = {NULL: "Retrain", ORIGINAL.name: "trained model"}  # other names than the record's
# Variants that explain a method or a measurement. The tables of the study have them.
HIDDEN: Final = frozenset(
    {
        "20 epochs in place of 30", "40 epochs in place of 30", "rate times 1.5", "batches of 64",
        "FedORA, noise", "FedORA, ten requests", "FedORA, full batches", "FedORA, constant steps",
        "FedORA, proximal term", "FedORA, dual off, searched", "FedORA, held-out level, dual off",
        "FedORA, paper's form, dual off",
    }
)  # fmt: skip
LARGE: Final = 17.0  # size of the marker of FedORA with its defaults
ACROSS, WIDTH, HEIGHT, DPI = 2, 5.6, 4.6, 150  # panels in a row, inches of a panel
TICKS: Final = (0.01, 0.03, 0.1, 0.3, 1.0)
POINT: Final = DPI / 72  # pixels of a typographic point
ANGLES, DISTANCES = (
    16,
    (7.0, 11.0, 16.0, 23.0, 31.0, 40.0, 52.0, 68.0, 88.0),
)  # of a label, in points
# Points of distance that a label may move away to avoid another label or its point's marker, the
# neighbourhood (in points) of another marker, and a line.
COST_OF_LABEL, COST_OF_MARKER, NEAR, COST_OF_LINE = 1000.0, 25.0, 7.0, 5.0


@dataclass(frozen=True, slots=True)
class StudyPoint:
    """One method on one population, as the figure shows it."""

    population: str
    name: str
    kind: str  # a key of ``STYLES``
    rows: float  # rows that are exchanged, relative to Retrain
    leak: float  # AUC of U-LiRA
    low: float  # of its interval over seeds
    high: float


def study_points(found: Iterable[PopulationSummary]) -> list[StudyPoint]:
    """Return one point for each method of each population, except hidden variants."""
    return [
        StudyPoint(
            place.name,
            LABELS.get(own.name, own.name),
            kind_of(own),
            *(round(each, 4) for each in (own.rows, leak.value, leak.low, leak.high)),
        )
        for place in found
        for own in place.methods
        if own.name not in HIDDEN
        for leak in (own.auc[U_LIRA],)
    ]


def kind_of(own: MethodSummary) -> str:
    """Return the kind of a row: a key of ``STYLES``."""
    if own.way == ORIGINAL.way:
        return TRAINED
    if own.way in PRIMAL_DUAL:
        return PRIMAL
    exact = own.way in (RETRAIN.way, TRAINING) or METHODS[own.way].guarantee is Guarantee.EXACT
    return EXACT if exact else OTHER


def draw_study(found: Sequence[StudyPoint], path: Path) -> None:
    """Plot the leak of every method against its rows, with intervals, in one panel per population.

    The picture contains the digest of its points as text.
    """
    panels = {name: [each for each in found if each.population == name]
              for name in dict.fromkeys(each.population for each in found)}  # fmt: skip
    down = ceil(len(panels) / ACROSS)
    with mpl.rc_context({"font.size": 8}):
        figure = Figure(figsize=(WIDTH * ACROSS, HEIGHT * down + 0.4), layout="constrained")
        FigureCanvasAgg(figure)
        figure.set_dpi(DPI)
        zero = min((each.rows for each in found if each.rows > 0), default=1.0) / 3
        limits = (min(each.low for each in found) - 0.03, max(each.high for each in found) + 0.02)
        drawn: list[tuple[Axes, Sequence[StudyPoint]]] = []
        for place, (name, own) in enumerate(panels.items(), 1):
            axes = figure.add_subplot(down, ACROSS, place)
            axes.set_title(name, fontweight="bold")
            axes.set_ylim(*limits)
            _panel(axes, own, zero)
            drawn.append((axes, own))
        _legend(figure)
        figure.draw_without_rendering()  # places the panels, before labels are placed in them
        figure.set_layout_engine("none")
        for axes, shown in drawn:
            _labels(axes, shown, zero)
        digest = values_digest([asdict(each) for each in found])
        figure.savefig(path, dpi=DPI, metadata={"Software": None, RECORD: digest})


def _panel(axes: Axes, own: Sequence[StudyPoint], zero: float) -> None:
    """Draw the points of one population; models without exchanged rows stand at ``zero``."""
    axes.set_xscale("log")
    axes.set_xlim(zero / 1.6, 4.0)
    ticks = [each for each in TICKS if each > 2 * zero]
    axes.set_xticks([zero, *ticks], ["0", *(f"{each:g}" for each in ticks)])
    axes.minorticks_off()
    axes.axvline(1.7 * zero, color="0.85", linewidth=3)  # the axis is interrupted here
    axes.axhline(0.5, color="0.3", linewidth=1)
    for each in own:
        if each.kind == TRAINED:
            axes.axhline(each.leak, color="0.3", linewidth=1, linestyle="--")
    for each in sorted(own, key=lambda point: point.kind == PRIMAL):
        _, marker, colour, size = STYLES[each.kind]
        axes.errorbar(
            max(each.rows, zero), each.leak,
            [[max(each.leak - each.low, 0.0)], [max(each.high - each.leak, 0.0)]],
            fmt=marker, color=colour, ecolor=(colour, 0.35), elinewidth=1,
            markersize=LARGE if each.name == FEDORA else size,
            markeredgecolor="white", markeredgewidth=0.5, zorder=5 if each.name == FEDORA else 3,
        )  # fmt: skip
    axes.set_xlabel("rows exchanged, relative to a Retrain")
    axes.set_ylabel("leak (AUC of U-LiRA)")
    axes.grid(axis="y", alpha=0.2)


def _legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], marker=marker, color=colour, linestyle="", markersize=size + 1, label=text)
        for text, marker, colour, size in STYLES.values()
    ]
    handles += [
        Line2D([], [], color="0.3", label="0.5: the attack cannot tell"),
        Line2D([], [], color="0.3", linestyle="--", label="leak of the trained model"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)


def _labels(axes: Axes, own: Sequence[StudyPoint], zero: float) -> None:
    """Write the name beside every point; FedORA's labels are placed first."""
    ordered = sorted(own, key=lambda point: (point.name != FEDORA, point.kind, -point.leak))
    places = {each.name: (max(each.rows, zero), each.leak) for each in ordered}
    pixels = {name: axes.transData.transform(place) for name, place in places.items()}
    lines = _lines(axes, own, zero)
    taken = [_box(x, y, _size(each), _size(each)) for each in own for x, y in (pixels[each.name],)]
    for each in ordered:
        colour, large = STYLES[each.kind][2], each.name == FEDORA
        text = axes.annotate(
            each.name, places[each.name], (0, 0), textcoords="offset points",
            ha="center", va="center", fontsize=10 if large else 7, color=colour, zorder=6,
            fontweight="bold" if large else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "alpha": 0.6,
                        "shrinkA": 0, "shrinkB": 2},
        )  # fmt: skip
        text.set_path_effects([withStroke(linewidth=2, foreground="white")])
        x, y = pixels[each.name]
        near = [
            Bbox([at, at]).padded(NEAR * POINT) for name, at in pixels.items() if name != each.name
        ]
        costs = [
            (distance + COST_OF_LABEL * box.count_overlaps(taken)
             + COST_OF_MARKER * box.count_overlaps(near) + COST_OF_LINE * box.count_overlaps(lines),
             box)
            for distance, box in _candidates(x, y, text.get_window_extent())
            if _contains(axes.bbox, box)
        ]  # fmt: skip
        _, box = min(costs, key=lambda cost: cost[0])
        middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        text.set_position(((middle[0] - x) / POINT, (middle[1] - y) / POINT))
        taken.append(box)


def _size(point: StudyPoint) -> float:
    """The size of a marker in pixels, without its white edge."""
    return 0.8 * POINT * (LARGE if point.name == FEDORA else STYLES[point.kind][3])


def _lines(axes: Axes, own: Sequence[StudyPoint], zero: float) -> list[Bbox]:
    """Boxes of the horizontal lines and the intervals of a panel, in pixels."""
    left, right = axes.get_xlim()
    levels = [0.5, *(each.leak for each in own if each.kind == TRAINED)]
    ends = [((left, level), (right, level)) for level in levels]
    ends += [((max(each.rows, zero), each.low), (max(each.rows, zero), each.high)) for each in own]
    return [Bbox(axes.transData.transform(each)).padded(1) for each in ends]


def _contains(outer: BboxBase, inner: Bbox) -> bool:
    return bool(
        outer.x0 <= inner.x0 and inner.x1 <= outer.x1
        and outer.y0 <= inner.y0 and inner.y1 <= outer.y1
    )  # fmt: skip


def _candidates(x: float, y: float, size: BboxBase) -> Iterator[tuple[float, Bbox]]:
    """Distances in points and boxes in pixels of a label around a point, the nearest first."""
    for distance, step in product(DISTANCES, range(ANGLES)):
        angle = 2 * pi * step / ANGLES
        right = cos(angle) * (distance * POINT + size.width / 2)
        up = sin(angle) * (distance * POINT + size.height / 2)
        yield distance, _box(x + right, y + up, size.width, size.height)


def _box(x: float, y: float, width: float, height: float) -> Bbox:
    """The box of this size around a point."""
    return Bbox.from_bounds(x - width / 2, y - height / 2, width, height)
