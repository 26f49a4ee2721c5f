"""Result tables: mean and spread over seeds, the gap to Retrain and the paper's number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parties.experiments.bench.blocks import RETRAIN, TableBlock
from parties.experiments.bench.extract import RESTORED
from parties.experiments.bench.results import MeanSd, Results, TableRow, mean_sd, seed_differences


@dataclass(frozen=True, slots=True)
class TableCell:
    """One cell of a result table: the value of one measure in one row.

    Attributes:
        gap: difference between this value and the value of Retrain with the same seed, as a mean
            over seeds.
        paper, paper_gap: the paper's number, and this number minus the paper's number for Retrain.
    """

    ours: MeanSd | None
    gap: float | None
    paper: float | None
    paper_gap: float | None


@dataclass(frozen=True, slots=True)
class TableLine:
    """One row of a block, with one cell per measure.

    Attributes:
        restored: numbers of runs, without and with a backdoor, in which the method gave no valid
            model, so that the figures are those of the trained model.
    """

    row: TableRow
    cells: tuple[TableCell, ...]
    restored: tuple[int, ...] = (0, 0)


@dataclass(frozen=True, slots=True)
class FilledBlock:
    """A block with its results; a row without any value is omitted."""

    block: TableBlock
    lines: tuple[TableLine, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the block has no results."""
        return not any(cell.ours for line in self.lines for cell in line.cells)


def fill_blocks(blocks: Sequence[TableBlock], results: Results) -> list[FilledBlock]:
    """Fill every block with results."""
    return [FilledBlock(block, tuple(_lines(block, results))) for block in blocks]


def _lines(block: TableBlock, results: Results) -> list[TableLine]:
    rows = block.rows
    unknown = [
        TableRow(label, "", "") for label in block.paper if label not in {r.label for r in rows}
    ]
    lines = [
        TableLine(
            row,
            tuple(_cell(block, results, row, at) for at in range(len(block.measures))),
            tuple(len(results.series(block.experiment, row, each)) for each in RESTORED),
        )
        for row in (*rows, *unknown)
    ]
    return [line for line in lines if _has_figure(line)]


def _has_figure(line: TableLine) -> bool:
    return any(cell.ours or cell.paper is not None for cell in line.cells)


def _cell(block: TableBlock, results: Results, row: TableRow, at: int) -> TableCell:
    measure, paper = block.measures[at], block.paper.get(row.label)
    ours = results.series(block.experiment, row, measure)
    reference = results.series(block.experiment, block.reference(row), measure)
    gap = mean_sd(seed_differences(ours, reference))
    theirs = paper[at] if paper else None
    retrain = block.paper.get(block.reference(row).label) or block.paper.get("Retrain")
    apart = theirs - retrain[at] if theirs is not None and retrain else None
    return TableCell(mean_sd(ours), gap.mean if gap else None, theirs, apart)


def block_to_json(shown: FilledBlock) -> dict[str, object]:
    """Return a block as JSON values."""
    block = shown.block
    head: dict[str, object] = {"table": block.table, "title": block.title}
    head["experiment"] = block.experiment
    if shown.is_empty:
        head["not run"] = _absent(block)
    lines = [
        {
            "row": line.row.label,
            **{name: _plain(cell) for name, cell in zip(block.measures, line.cells, strict=True)},
            **({"restored": [*line.restored]} if any(line.restored) else {}),
        }
        for line in shown.lines
    ]
    return head | {"note": block.note, "rows": lines}


def block_from_json(blocks: Sequence[TableBlock], content: Mapping[str, Any]) -> FilledBlock:
    """Return the block that ``block_to_json`` returned as ``content``; one of ``blocks``.

    Raises:
        LookupError: no block has this table and title.
    """
    named = (content["table"], content["title"])
    block = next((each for each in blocks if (each.table, each.title) == named), None)
    if block is None:
        raise LookupError(f"tables.json: no block {named[1]!r} in table {named[0]!r}; publish anew")
    rows = {row.label: row for row in block.rows}
    lines = [
        TableLine(
            rows.get(line["row"], TableRow(line["row"], "", "")),
            tuple(_cell_from_json(line[name]) for name in block.measures),
            tuple(line.get("restored", (0, 0))),
        )
        for line in content["rows"]
    ]
    return FilledBlock(block, tuple(lines))


def _cell_from_json(plain: Mapping[str, Any]) -> TableCell:
    ours = None if plain["mean"] is None else MeanSd(plain["mean"], plain["sd"], plain["seeds"])
    return TableCell(ours, plain["minus_retrain"], plain["paper"], plain["paper_minus_retrain"])


def _plain(cell: TableCell) -> dict[str, float | int | None]:
    ours = cell.ours
    return {
        "mean": ours.mean if ours else None,
        "sd": ours.sd if ours else None,
        "seeds": ours.n if ours else 0,
        "minus_retrain": cell.gap,
        "paper": cell.paper,
        "paper_minus_retrain": cell.paper_gap,
    }


def block_to_markdown(shown: FilledBlock) -> str:
    """Return a block as a Markdown table under its title."""
    block = shown.block
    title = f"### {block.title}\n\n"
    title += f"{_absent(block)}\n\n" if shown.is_empty else f"{_seeds(shown)}\n\n"
    title += f"{block.note[0].upper() + block.note[1:]}.\n\n" if block.note else ""
    title += "".join(f"{each}\n\n" for line in shown.lines for each in _restored(line))
    if not shown.lines:
        return title
    papers = ["paper"] if shown.block.paper else []
    sides = papers if shown.is_empty else ["ours", *papers]
    heads = ["row", *(_head(block, measure, side) for measure in block.measures for side in sides)]
    lines = [heads, ["---"] * len(heads)]
    for line in shown.lines:
        cells = [_text(cell, line.row, side) for cell in line.cells for side in sides]
        lines.append([line.row.label, *cells])
    return title + "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _restored(line: TableLine) -> Iterator[str]:
    """Yield what must be said of a row whose method gave no valid model in some runs."""
    for count, which in zip(line.restored, ("without", "with"), strict=True):
        if count:
            runs, these = ("1 run", "this run") if count == 1 else (f"{count} runs", "these runs")
            yield (
                f"**{line.row.label} was rolled back in {runs} {which} a backdoor:** the figures "
                f"of {these} are those of the trained model."
            )


def _absent(block: TableBlock) -> str:
    """Return the text of a cell without runs."""
    return f"not run{' (needs a GPU)' if block.gpu else ' yet'}; to run it: `{block.command}`"


def _seeds(shown: FilledBlock) -> str:
    """Return the number of seeds of a block's figures."""
    counts = {cell.ours.n for line in shown.lines for cell in line.cells if cell.ours}
    least, most = min(counts), max(counts)
    if most == 1:
        return "One seed, so there is no standard deviation."
    return f"{most} seeds." if least == most else f"{least} to {most} seeds."


def _head(block: TableBlock, measure: str, side: str) -> str:
    return block.headings[measure] + (", paper" if side == "paper" else "")


def _text(cell: TableCell, row: TableRow, side: str) -> str:
    """Return a figure with its spread, and its difference to Retrain in brackets."""
    value, gap = _spread(cell.ours), cell.gap
    if side == "paper":
        value, gap = "" if cell.paper is None else f"{cell.paper:.4f}", cell.paper_gap
    return value if gap is None or row.method == RETRAIN.method else f"{value} ({gap:+.4f})"


def _spread(ours: MeanSd | None) -> str:
    if ours is None:
        return ""
    return f"{ours.mean:.4f}" + ("" if ours.sd is None else f" ± {ours.sd:.4f}")
