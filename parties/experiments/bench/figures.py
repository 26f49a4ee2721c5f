"""Figures as PNG files: bars for methods, curves for sweeps, with the spread over seeds."""

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from textwrap import fill

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parties.experiments.bench.tables import FilledBlock, TableLine

RECORD = "Record"  # keyword of the text chunk with the digest of the drawn values
_WIDTH, _PANEL = 4.2, 3.4  # inches
_ACROSS = 3  # panels
_TITLE = 32  # letters of a line
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def draw_blocks(shown: Sequence[FilledBlock], path: Path, record: str) -> bool:
    """Draw all blocks of one figure to ``path``; return False if there are no results to draw.

    ``record`` is the digest of the drawn values; the picture contains it as text.
    """
    drawn = [each for each in shown if not each.is_empty]
    if not drawn:
        return False
    across = min(len(drawn), _ACROSS)
    down = ceil(len(drawn) / across)
    figure = Figure(figsize=(_WIDTH * across, _PANEL * down), layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).flatten()
    for place in axes[len(drawn) :]:
        place.set_visible(False)
    for each, place in zip(drawn, axes, strict=False):
        (_curves if each.block.points else _bars)(each, place)
        place.set_title(fill(each.block.title, _TITLE), fontsize=9)
        place.tick_params(labelsize=7)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=7, loc="outside lower center", ncols=2 * across)
    figure.savefig(path, dpi=130, metadata={"Software": None, RECORD: record})
    return True


def _bars(shown: FilledBlock, place: Axes) -> None:
    """Draw one group of bars per method and one bar per measure, with the spread over seeds."""
    lines = [line for line in shown.lines if any(cell.ours for cell in line.cells)]
    measures = shown.block.measures
    height = 0.8 / len(measures)
    for at, measure in enumerate(measures):
        means, spreads = _column(lines, at)
        offset = [row + (at - (len(measures) - 1) / 2) * height for row in range(len(lines))]
        colour = _COLOURS[at % len(_COLOURS)]
        place.barh(
            offset, means, height, xerr=spreads, color=colour, label=shown.block.headings[measure]
        )
    place.set_yticks(range(len(lines)), [line.row.label for line in lines])
    place.invert_yaxis()


def _curves(shown: FilledBlock, place: Axes) -> None:
    """Draw one curve per measure over the points of a sweep; a dashed line marks Retrain."""
    block = shown.block
    by_label = {line.row.label: line for line in shown.lines}
    known = [
        (point, by_label[name])
        for point, name in zip(block.points, block.variants, strict=True)
        if name in by_label
    ]
    for at, measure in enumerate(block.measures):
        if measure == "round":  # seconds do not fit on an axis of shares; the table shows them
            continue
        means, spreads = _column([line for _, line in known], at)
        points = [point for point, _ in known]
        colour = _COLOURS[at % len(_COLOURS)]
        place.errorbar(
            points,
            means,
            spreads,
            color=colour,
            marker="o",
            ms=3,
            label=shown.block.headings[measure],
        )
        retrain = by_label.get("Retrain")
        if retrain and (level := retrain.cells[at].ours):
            place.axhline(level.mean, color=colour, ls="--", lw=0.8)
    place.set_xlabel(f"{block.axis} (dashed: Retrain)", fontsize=8)


def _column(lines: Sequence[TableLine], at: int) -> tuple[list[float], list[float]]:
    """Return means and standard deviations of one measure, ``[rows]`` each; NaN where absent."""
    cells = [line.cells[at].ours for line in lines]
    means = [cell.mean if cell else float("nan") for cell in cells]
    return means, [cell.sd or 0.0 if cell else 0.0 for cell in cells]
