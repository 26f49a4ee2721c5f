"""The report of a run: its metrics as canonical JSON, as a page, and as tables on the terminal.

All three say the same: no figure without Retrain's beside it, and what was not run is not run.
"""

import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from parties.comparison import Record, outcome
from parties.method_table import Cell, method_table
from parties.page import page
from parties.quantities import NARROW, count, seconds, size
from parties.sentences import closing

__all__ = ["page", "table", "write_metrics", "write_page"]

STYLES = {"fedora": "bold", "mean": "italic"}


def write_metrics(metrics: Record, path: Path) -> None:
    """Write canonical JSON: keys sorted, no spaces, UTF-8, one newline at the end.

    Raises:
        ValueError: if a number is not finite; it names the place.
    """
    for place, value in _numbers(metrics, "metrics"):
        if not math.isfinite(value):
            raise ValueError(f"{place} is {value}; legal is a finite number, or null if not run")
    text = json.dumps(
        metrics, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    _write(f"{text}\n", path)


def write_page(metrics: Record, path: Path) -> None:
    """Write the page; like the metrics it is there as a whole or not at all."""
    _write(page(metrics), path)


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Yield every real number of a document with the place where it stands."""
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _numbers(part, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            yield from _numbers(part, f"{place}[{i}]")


def _write(text: str, path: Path) -> None:
    """Write beside ``path`` and rename; readable by this account only, as labels speak in it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def table(metrics: Record) -> RenderableType:
    """Return what the terminal shows: a table and a sentence per request, then the traffic."""
    shown: list[RenderableType] = []
    for request in metrics["requests"] or []:
        shown += [_methods(request), Text(_summary(request)), Text()]
    if metrics["traffic"]:
        shown.append(_traffic(metrics["traffic"]))
    return Group(*shown)


def _summary(request: Record) -> str:
    return f"{outcome(request).value}. {closing(request)}"


def _methods(request: Record) -> Table:
    methods = method_table(request)
    grid = _grid(f"{request['name']}: every method beside Retrain", "method", methods.short)
    for line in methods.lines:
        grid.add_row(Text(line.name), *map(_compact, line.cells), style=STYLES.get(line.kind, ""))
    return grid


def _compact(cell: Cell) -> Text:
    """Return a figure without its gap, an AUC with half its interval."""
    return Text(f"{cell.value}{cell.margin}".replace(NARROW, " "))


def _traffic(traffic: Sequence[Record]) -> Table:
    grid = _grid("Traffic", "phase", ["time", "bytes", "messages"])
    for row in traffic:
        figures = [seconds(row["seconds"]), size(row["bytes"]), count(row["messages"])]
        grid.add_row(Text(row["phase"]), *(Text(figure) for figure in figures))
    return grid


def _grid(title: str, first: str, others: Sequence[str]) -> Table:
    """Return an empty table; names are Text throughout, so that none can be markup."""
    grid = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    grid.add_column(Text(first), no_wrap=True)
    for other in others:
        grid.add_column(Text(other), justify="right", no_wrap=True)
    return grid
