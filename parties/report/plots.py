"""Forms of the report's figures: curves, butterflies and bars.

A line is told from another by its dashes, a set of rows by its side of the axis: colour only
repeats what form and words already say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from parties.report.quantities import number
from parties.report.svg import BLUE, FAINT, INK, VERMILLION, drawn

Values: TypeAlias = Sequence[float | None]
Heights: TypeAlias = NDArray[np.float64]
Sides: TypeAlias = tuple[Heights, Heights]  # shares of forgotten rows and of held-out rows
Show: TypeAlias = Callable[[float], str]
SIDES = ("forgotten", "held-out")
ROOM_FOR_NAMES, ROOM_FOR_TEXT = 0.34, 0.15  # of the width


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure of the page: an inline SVG between its title and its caption."""

    title: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Line:
    """A named course of values."""

    name: str
    values: Values
    colour: str = BLUE
    dashes: str = "-"


@dataclass(frozen=True, slots=True)
class Course:
    """The epochs or iterations that lines run over, and the one that was kept."""

    unit: str
    at: Sequence[int]
    kept: int | None = None


def curves(
    title: str, caption: str, course: Course, lines: Sequence[Line], *, log: bool = False
) -> Panel | None:
    """Draw lines over the epochs or iterations of ``course``."""
    shown = [line for line in lines if _points(course, line.values, log)]
    if not shown:
        return None

    def draw(axes: Axes) -> None:
        for line in shown:
            points = _points(course, line.values, log)
            axes.plot(
                *zip(*points, strict=True),
                color=line.colour,
                linestyle=line.dashes,
                marker="o" if len(points) <= len(course.at) / 2 or len(points) == 1 else "",
                label=line.name,
            )
        if course.kept is not None:
            axes.axvline(course.kept, color=FAINT, linewidth=1, label=f"kept: {course.kept}")
        axes.set_xlabel(course.unit)
        _finish_curves(axes, log)

    courses = "; ".join(f"{line.name} {_said(line.values)}" for line in shown)
    return Panel(title, caption, drawn(draw, f"{title}. {caption} {courses}."))


def _points(course: Course, values: Values, log: bool) -> list[tuple[float, float]]:
    """Return where there is something to draw; what is looked at now and then gets marks."""
    drawable = zip(course.at, values, strict=True)
    return [(at, v) for at, v in drawable if v is not None and not (log and v <= 0)]


def _said(values: Values) -> str:
    known = [value for value in values if value is not None]
    if min(known) == max(known):
        return f"at {number(known[0], 3)}"
    return f"from {number(known[0], 3)} to {number(known[-1], 3)}"


def _finish_curves(axes: Axes, log: bool) -> None:
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=False, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if len(axes.lines) > 1:
        name_lines(axes)


def butterfly(
    title: str, caption: str, edges: Sequence[float], sides: Sides, goal: Sides | None = None
) -> Panel:
    """Draw forgotten rows above the axis and held-out rows below, as shares; ``goal`` in outline.

    Heights are square roots, so that the few rows of a long tail are seen too.
    """

    def draw(axes: Axes) -> None:
        for sign, share, colour, name in zip(
            (1, -1), sides, (BLUE, VERMILLION), SIDES, strict=True
        ):
            axes.stairs(sign * share, edges, fill=True, color=colour, alpha=0.75, label=name)
        for sign, share in zip((1, -1), goal or (), strict=False):
            axes.stairs(sign * share, edges, color=INK, linewidth=1.3, label="Retrain" * (sign > 0))
        _finish_butterfly(axes)

    return Panel(title, caption, drawn(draw, f"{title}. {caption}"))


def _finish_butterfly(axes: Axes) -> None:
    axes.set_yscale("function", functions=(_root, _square))
    axes.set_ylim(-1, 1)
    axes.set_yticks([-1, -0.5, -0.1, 0, 0.1, 0.5, 1])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * abs(value):g} %"))
    axes.axhline(0, color=INK, linewidth=1)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("entropy of the prediction, nats")
    name_lines(axes)


def _root(height: Heights) -> Heights:
    return np.sign(height) * np.sqrt(np.abs(height))


def _square(height: Heights) -> Heights:
    return np.sign(height) * np.square(height)


def bars(title: str, caption: str, lengths: Mapping[str, float], show: Show) -> Panel | None:
    """Draw one named bar each, its length in words at its end."""
    if not lengths:
        return None

    def draw(axes: Axes) -> None:
        axes.barh(list(lengths), list(lengths.values()), color=BLUE, height=0.6)
        for y, length in enumerate(lengths.values()):
            axes.annotate(
                show(length), (length, y), xytext=(5, 0), textcoords="offset points", va="center"
            )
        _finish_bars(axes)

    said = "; ".join(f"{name} {show(length)}" for name, length in lengths.items())
    return Panel(
        title, caption, drawn(draw, f"{title}. {caption} {said}.", ROOM_FOR_NAMES, ROOM_FOR_TEXT)
    )


def _finish_bars(axes: Axes) -> None:
    axes.invert_yaxis()
    axes.margins(x=0)
    axes.grid(visible=False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)


def name_lines(axes: Axes) -> None:
    """Put the names of what is drawn above the axes, in a row, each once."""
    handles, names = axes.get_legend_handles_labels()
    named = dict(zip(names, handles, strict=True))
    if named:
        axes.legend(named.values(), named, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3)
