"""Rows of marks: every method in a row of its own, on one scale with the goal drawn in."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from parties.report.plots import ROOM_FOR_NAMES, ROOM_FOR_TEXT, Panel, Show, name_lines
from parties.report.svg import FAINT, INK, drawn

STICK_GAP = 0.24  # of the height of a row


@dataclass(frozen=True, slots=True)
class Mark:
    """One value in a row, with its interval where it has one."""

    value: float
    colour: str = FAINT
    shape: str = "o"
    name: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A method and its marks; ``text`` stands at the right."""

    name: str
    marks: Sequence[Mark]
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The axis that all rows share.

    Attributes:
        goal: where a mark should be, drawn through all rows.
        start: where every mark's stick begins; None joins the marks of a row instead.
    """

    label: str
    show: Show = lambda value: f"{value:g}"
    goal: float | None = None
    start: float | None = None
    log: bool = False


def marks(title: str, caption: str, rows: Sequence[Row], scale: Scale) -> Panel | None:
    """Draw one row per method; rows with no value at all are left out."""
    shown = [row for row in rows if row.marks]
    if not shown:
        return None

    def draw(axes: Axes) -> None:
        if scale.goal is not None:
            axes.axvline(scale.goal, color=INK, linewidth=1.2, linestyle="--")
        for y, row in enumerate(shown):
            _draw_row(axes, y, row, scale)
        _finish_marks(axes, [row.name for row in shown], scale)

    said = "; ".join(f"{row.name} {_said(row, scale)}" for row in shown)
    return Panel(
        title, caption, drawn(draw, f"{title}. {caption} {said}.", ROOM_FOR_NAMES, ROOM_FOR_TEXT)
    )


def _said(row: Row, scale: Scale) -> str:
    return ", ".join(f"{mark.name} {scale.show(mark.value)}".strip() for mark in row.marks)


def _draw_row(axes: Axes, y: int, row: Row, scale: Scale) -> None:
    apart = 0.0 if scale.start is None else STICK_GAP
    for place, mark in enumerate(row.marks):
        height = y + apart * (place - (len(row.marks) - 1) / 2)
        axes.plot(
            _stick(mark, row.marks[0].value, scale), [height] * 2, color=mark.colour, linewidth=1.6
        )
        _draw_mark(axes, height, mark)
    axes.annotate(row.text, (1.02, y), xycoords=("axes fraction", "data"), va="center")


def _stick(mark: Mark, first: float, scale: Scale) -> Sequence[float]:
    """Return where a mark's stick begins and ends."""
    if mark.interval is not None:
        return mark.interval
    return [first if scale.start is None else scale.start, mark.value]


def _draw_mark(axes: Axes, height: float, mark: Mark) -> None:
    """Draw a mark; squares are larger and hollow, to be seen around a dot at the same place."""
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


def _finish_marks(axes: Axes, names: Sequence[str], scale: Scale) -> None:
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
    name_lines(axes)
