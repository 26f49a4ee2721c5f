"""Plots as inline SVG: curves, histograms, bars and marks of methods.

The page sets the colours with CSS variables, for light, dark and printed pages. No information
depends on colour alone. Curves also have different dash patterns. The histogram of the forgotten
rows is above the axis, and the histogram of the held-out rows is below.
"""

import hashlib
import html
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from parties.report.quantities import format_number

# Colour-blind-safe palette by Okabe and Ito; each colour is a CSS variable on the page.
BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
INK, FAINT, RULE = "#1b1e23", "#6b7178", "#d9dce0"
VARIABLES = {
    BLUE: "blue",
    VERMILLION: "vermillion",
    GREEN: "green",
    INK: "ink",
    FAINT: "faint",
    RULE: "rule",
}

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text elements, no outlines
    "svg.hashsalt": "vfl",  # the same metrics give the same page
    "text.parse_math": False,  # a name may contain a dollar sign
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": FAINT,
    "axes.edgecolor": FAINT,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": RULE,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": "none",
    "lines.linewidth": 2,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.borderpad": 0,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
}
NO_METADATA: dict[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def draw_svg(
    draw: Callable[[Axes], object], description: str, left: float = 0.15, right: float = 0.03
) -> str:
    """Call ``draw`` with new axes and return the plot as an ``<svg>`` element.

    ``description`` is the text of the plot for screen readers. ``left`` and ``right`` are margins,
    as fractions of the width. The style is set only during this call, because the settings of
    Matplotlib are process-wide.
    """
    text = io.StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.8))
        axes = figure.add_axes((left, 0.0, 1 - left - right, 1.0))
        draw(axes)
        bottom = 0.19 if axes.xaxis.get_visible() else 0.02
        top = 0.97 if axes.get_legend() is None else 0.86
        axes.set_position((left, bottom, 1 - left - right, top - bottom))
        figure.savefig(text, format="svg", metadata=NO_METADATA)
    return _inline(text.getvalue(), description)


def _inline(document: str, description: str) -> str:
    """Return the SVG element of a document, with CSS variables as colours and without metadata."""
    box = re.search(r'viewBox="([^"]*)"', document)
    body = re.sub(r"<style.*?</style>|<metadata>.*?</metadata>", "", document, flags=re.DOTALL)
    body = body[body.index(">", body.index("<svg")) + 1 :]
    body = body.replace("xlink:href", "href").replace("<defs>\n  </defs>", "")
    for colour, name in VARIABLES.items():
        body = body.replace(colour, f"var(--{name})")
    opening = f'<svg role="img" aria-label="{html.escape(description)}" viewBox="{box and box[1]}">'
    return opening + _own_names(re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL))


def _own_names(body: str) -> str:
    """Remove unused IDs, and make the other IDs unique on the page."""
    used = set(re.findall(r"#(\w+)[\")]", body))
    own = "f" + hashlib.sha256(body.encode()).hexdigest()[:8]
    body = re.sub(
        r'(?:\s)id="([\w.]+)"', lambda m: f' id="{own}-{m[1]}"' if m[1] in used else "", body
    )
    return re.sub(
        r"#(\w+)([\")])", lambda m: f"#{own}-{m[1]}{m[2]}" if m[1] in used else m[0], body
    )


Values: TypeAlias = Sequence[float | None]
Heights: TypeAlias = NDArray[np.float64]
HistogramPair: TypeAlias = tuple[Heights, Heights]  # shares of forgotten rows and of held-out rows
ValueFormat: TypeAlias = Callable[[float], str]
HISTOGRAM_NAMES = ("forgotten", "held-out")
ROOM_FOR_NAMES, ROOM_FOR_TEXT = 0.34, 0.15  # of the width


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of the page: an inline SVG with a title and a caption."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A named series of values."""

    name: str
    values: Values
    colour: str = BLUE
    dashes: str = "-"


@dataclass(frozen=True, slots=True)
class CurveAxis:
    """The x axis of curves: epochs, rounds or iterations; a line marks the position ``kept``."""

    unit: str
    at: Sequence[int]
    kept: int | None = None


def draw_curves(
    title: str, caption: str, axis: CurveAxis, lines: Sequence[Curve], *, log: bool = False
) -> Panel | None:
    """Draw curves over a common x axis; return None if no curve has a value."""
    shown = [line for line in lines if _points(axis, line.values, log)]
    if not shown:
        return None

    def draw(axes: Axes) -> None:
        for line in shown:
            points = _points(axis, line.values, log)
            axes.plot(
                *zip(*points, strict=True),
                color=line.colour,
                linestyle=line.dashes,
                marker="o" if len(points) <= len(axis.at) / 2 or len(points) == 1 else "",
                label=line.name,
            )
        if axis.kept is not None:
            axes.axvline(axis.kept, color=FAINT, linewidth=1, label=f"kept: {axis.kept}")
        axes.set_xlabel(axis.unit)
        _finish_curves(axes, log)

    descriptions = "; ".join(f"{line.name} {_describe_values(line.values)}" for line in shown)
    return Panel(title, caption, draw_svg(draw, f"{title}. {caption} {descriptions}."))


def _points(axis: CurveAxis, values: Values, log: bool) -> list[tuple[float, float]]:
    """Return the points with a value; on a logarithmic axis only positive ones."""
    drawable = zip(axis.at, values, strict=True)
    return [(at, v) for at, v in drawable if v is not None and not (log and v <= 0)]


def _describe_values(values: Values) -> str:
    known = [value for value in values if value is not None]
    if min(known) == max(known):
        return f"at {format_number(known[0], 3)}"
    return f"from {format_number(known[0], 3)} to {format_number(known[-1], 3)}"


def _finish_curves(axes: Axes, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=False, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if len(axes.lines) > 1:
        add_legend(axes)


def draw_histograms(
    title: str,
    caption: str,
    edges: Sequence[float],
    sides: HistogramPair,
    goal: HistogramPair | None = None,
) -> Panel:
    """Draw two histograms: forgotten rows above the axis, held-out rows below.

    ``sides`` are the two histograms as fractions of rows, ``[bins]`` each; ``goal`` are the same
    histograms of Retrain, drawn as outlines. The vertical axis has a square-root scale, so that
    small fractions are visible.
    """

    def draw(axes: Axes) -> None:
        for sign, share, colour, name in zip(
            (1, -1), sides, (BLUE, VERMILLION), HISTOGRAM_NAMES, strict=True
        ):
            axes.stairs(sign * share, edges, fill=True, color=colour, alpha=0.75, label=name)
        for sign, share in zip((1, -1), goal or (), strict=False):
            axes.stairs(sign * share, edges, color=INK, linewidth=1.3, label="Retrain" * (sign > 0))
        _finish_histograms(axes)

    return Panel(title, caption, draw_svg(draw, f"{title}. {caption}"))


def _finish_histograms(axes: Axes) -> None:
    axes.set_yscale("function", functions=(_root, _square))
    axes.set_ylim(-1, 1)
    axes.set_yticks([-1, -0.5, -0.1, 0, 0.1, 0.5, 1])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * abs(value):g} %"))
    axes.axhline(0, color=INK, linewidth=1)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("entropy of the prediction, nats")
    add_legend(axes)


def _root(height: Heights) -> Heights:
    return np.sign(height) * np.sqrt(np.abs(height))


def _square(height: Heights) -> Heights:
    return np.sign(height) * np.square(height)


def draw_bars(
    title: str, caption: str, lengths: Mapping[str, float], show: ValueFormat
) -> Panel | None:
    """Draw one bar per name, labelled with its length; return None if there are no bars."""
    if not lengths:
        return None

    def draw(axes: Axes) -> None:
        axes.barh(list(lengths), list(lengths.values()), color=BLUE, height=0.6)
        for y, length in enumerate(lengths.values()):
            axes.annotate(
                show(length), (length, y), xytext=(5, 0), textcoords="offset points", va="center"
            )
        _finish_bars(axes)

    description = "; ".join(f"{name} {show(length)}" for name, length in lengths.items())
    return Panel(
        title,
        caption,
        draw_svg(draw, f"{title}. {caption} {description}.", ROOM_FOR_NAMES, ROOM_FOR_TEXT),
    )


def _finish_bars(axes: Axes) -> None:
    axes.invert_yaxis()
    axes.margins(x=0)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)


def add_legend(axes: Axes) -> None:
    """Add a legend above the axes; each name appears once."""
    handles, names = axes.get_legend_handles_labels()
    named = dict(zip(names, handles, strict=True))
    if named:
        axes.legend(named.values(), named, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3)


LINE_GAP = 0.24  # of the height of a row


@dataclass(frozen=True, slots=True)
class Mark:
    """One value in a row, with an optional interval around the value."""

    value: float
    colour: str = FAINT
    shape: str = "o"
    name: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class MarkRow:
    """The row of one method: name, marks, and a ``text`` at the right."""

    name: str
    marks: Sequence[Mark]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkScale:
    """The x axis of all rows."""

    label: str
    show: ValueFormat = lambda value: f"{value:g}"
    goal: float | None = None  # target value, drawn as a dashed line through all rows
    # Value from which a line is drawn to each mark; if None, a line joins the marks of a row.
    start: float | None = None
    log: bool = False


def draw_marks(title: str, caption: str, rows: Sequence[MarkRow], scale: MarkScale) -> Panel | None:
    """Draw one row for each method with a mark; return None if no method has a mark."""
    shown = [row for row in rows if row.marks]
    if not shown:
        return None

    def draw(axes: Axes) -> None:
        if scale.goal is not None:
            axes.axvline(scale.goal, color=INK, linewidth=1.2, linestyle="--")
        for y, row in enumerate(shown):
            _draw_row(axes, y, row, scale)
        _finish_marks(axes, [row.name for row in shown], scale)

    description = "; ".join(f"{row.name} {_describe_marks(row, scale)}" for row in shown)
    return Panel(
        title,
        caption,
        draw_svg(draw, f"{title}. {caption} {description}.", ROOM_FOR_NAMES, ROOM_FOR_TEXT),
    )


def _describe_marks(row: MarkRow, scale: MarkScale) -> str:
    return ", ".join(f"{mark.name} {scale.show(mark.value)}".strip() for mark in row.marks)


def _draw_row(axes: Axes, y: int, row: MarkRow, scale: MarkScale) -> None:
    apart = 0.0 if scale.start is None else LINE_GAP
    for place, mark in enumerate(row.marks):
        height = y + apart * (place - (len(row.marks) - 1) / 2)
        axes.plot(
            _line_ends(mark, row.marks[0].value, scale),
            [height] * 2,
            color=mark.colour,
            linewidth=1.6,
        )
        _draw_mark(axes, height, mark)
    axes.annotate(row.text, (1.02, y), xycoords=("axes fraction", "data"), va="center")


def _line_ends(mark: Mark, first: float, scale: MarkScale) -> Sequence[float]:
    """Return the ends of the line through a mark: its interval, or start and value."""
    if mark.interval is not None:
        return mark.interval
    return [first if scale.start is None else scale.start, mark.value]


def _draw_mark(axes: Axes, height: float, mark: Mark) -> None:
    """Draw a mark; squares are larger and hollow, so that a dot at the same place is visible."""
    hollow = mark.shape == "s"
    axes.plot(
        [mark.value],
        [height],
        marker=mark.shape,
        color=mark.colour,
        markersize=9 if hollow else 6,
        markerfacecolor="none" if hollow else mark.colour,
        linestyle="",
        label=mark.name,
    )


def _finish_marks(axes: Axes, names: Sequence[str], scale: MarkScale) -> None:
    if scale.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: scale.show(value)))
    axes.margins(x=0.07)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(scale.label)
    add_legend(axes)
