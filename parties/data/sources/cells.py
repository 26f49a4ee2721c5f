"""Cells: text as exact numbers, and what is wrong with text that is none."""

from collections.abc import Set
from math import inf, isfinite, nan

import numpy as np

from parties.data.sources.records import Array

LARGEST = 1e100  # the squares of larger numbers overflow
NO_NUMBER, NOT_FINITE = -inf, inf  # what stands for them among numbers


def parse_numbers(cells: list[str], absent: Set[str]) -> Array:
    """[cells] float64: NaN for an absent value, ``NO_NUMBER`` or ``NOT_FINITE`` for a bad one."""
    joined = "".join(cells)
    if joined.isascii() and "_" not in joined:  # float() takes more than we call a number
        try:
            return _all_numbers(cells, absent)
        except ValueError:
            pass
    return np.array([nan if cell in absent else _number(cell) for cell in cells])


def is_text(cell: str) -> bool:
    """Whether a cell holds no number of any kind."""
    return _number(cell) == NO_NUMBER


def describe_fault(value: float) -> str:
    """What a bad cell held, in words."""
    if value == NO_NUMBER:
        return "text"
    if not isfinite(value):
        return "NaN or infinity"
    return f"a number beyond {LARGEST:g}"


def _all_numbers(cells: list[str], absent: Set[str]) -> Array:
    """The same at once; raises ``ValueError`` where a cell needs a closer look."""
    gone = sum(map(absent.__contains__, cells))
    if gone:
        cells = ["nan" if cell in absent else cell for cell in cells]
    values = np.fromiter(map(float, cells), np.float64, len(cells))
    if np.isinf(values).any() or np.count_nonzero(np.isnan(values)) != gone:
        raise ValueError("NaN or infinity")
    return values


def _number(cell: str) -> float:
    if not cell.isascii() or "_" in cell:
        return NO_NUMBER
    try:
        value = float(cell)
    except ValueError:
        return NO_NUMBER
    return value if isfinite(value) else NOT_FINITE
