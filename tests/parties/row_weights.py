"""Weights of the rows in the active party's table of three parties."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VALUES = (0.0, 0.5, 1.0, 2.0, 7.25)  # the weights of rows, drawn at random
Write = Callable[[Path, int], None]


def add_weights(folder: Path, values: Sequence[float] = VALUES) -> None:
    """Add a column ``weight`` to the active party's table."""
    header, *lines = (folder / "hub.csv").read_text().splitlines()
    drawn = np.random.default_rng(11).choice(values, len(lines)).tolist()
    lines = [f"{line},{weight}" for line, weight in zip(lines, drawn, strict=True)]
    (folder / "hub.csv").write_text("\n".join([f"{header},weight", *lines]) + "\n")


def weighted(write: Write, values: Sequence[float] = VALUES) -> Write:
    """A function that writes the tables of ``write``, and the weights."""

    def write_weighted(folder: Path, rows: int) -> None:
        write(folder, rows)
        add_weights(folder, values)

    return write_weighted


def weights_in_table(folder: Path, ids: Sequence[bytes]) -> NDArray[np.float64]:
    """The weights of some rows in the active party's table, [ids]."""
    header, *lines = (line.split(",") for line in (folder / "hub.csv").read_text().splitlines())
    known = {cells[0].encode(): float(cells[header.index("weight")]) for cells in lines}
    return np.array([known[each] for each in ids])
