"""Table cells: conversion of text to numbers; special values stand for invalid cells."""

from collections.abc import Set
from datetime import UTC, datetime
from math import inf, isfinite, nan
from typing import Final, Literal, TypeAlias

import numpy as np

from parties.data.sources.arrays import Array

LARGEST = 1e100  # the squares of larger numbers overflow
NO_NUMBER, NOT_FINITE = -inf, inf  # marks of invalid cells

Decimal: TypeAlias = Literal[".", ","]  # separator of the decimal places
# A point in a number with a decimal comma is a thousands separator, which no number may have; the
# zero byte, which no table contains, keeps two different cells different.
_COMMA: Final = str.maketrans({",": ".", ".": "\0"})


def parse_numbers(cells: list[str], absent: Set[str], decimal: Decimal = ".") -> Array:
    """Return the cells as numbers, ``[cells]`` in float64.

    An absent value becomes NaN. An invalid cell becomes ``NO_NUMBER`` or ``NOT_FINITE``.
    """
    if decimal == ",":
        cells = [cell.translate(_COMMA) for cell in cells]
        absent = {mark.translate(_COMMA) for mark in absent}
    joined = "".join(cells)
    if joined.isascii() and "_" not in joined:  # float() accepts more than decimal numbers
        try:
            return _all_numbers(cells, absent)
        except ValueError:
            pass
    return np.array([nan if cell in absent else _number(cell) for cell in cells])


def number_marks(absent: Set[str]) -> Array:
    """Return the marks of absent values that are finite numbers, ``[marks]`` in float64."""
    values = parse_numbers(sorted(absent), frozenset())
    return values[np.isfinite(values)]


def parse_row_time(cell: str) -> tuple[float, bool]:
    """Return a date or a number, as a number that grows with time, and whether it is a date.

    A date is that of ISO 8601, with or without a time of day, or ``day.month.year``; without a time
    zone it is in UTC. A number is returned as it is.

    Raises:
        ValueError: the cell is neither.
    """
    value = _number(cell)
    if isfinite(value):
        return value, False
    try:
        found = datetime.fromisoformat(cell)
    except ValueError:
        found = datetime.strptime(cell, "%d.%m.%Y").replace(tzinfo=UTC)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), True


def is_text(cell: str) -> bool:
    """Return whether a cell is text: neither a number nor NaN or infinity."""
    return _number(cell) == NO_NUMBER


def is_number(cell: str) -> bool:
    """Return whether a cell is a finite number."""
    return isfinite(_number(cell))


def describe_fault(value: float) -> str:
    """Return a description of an invalid cell for an error message."""
    if value == NO_NUMBER:
        return "text"
    if not isfinite(value):
        return "NaN or infinity"
    return f"a number beyond {LARGEST:g}"


def _all_numbers(cells: list[str], absent: Set[str]) -> Array:
    """Convert all cells at once; raises ``ValueError`` if a cell must be checked by itself."""
    missing = sum(map(absent.__contains__, cells))
    if missing:
        cells = ["nan" if cell in absent else cell for cell in cells]
    values = np.fromiter(map(float, cells), np.float64, len(cells))
    if np.isinf(values).any() or np.count_nonzero(np.isnan(values)) != missing:
        raise ValueError("a cell is NaN or infinite")
    return values


def _number(cell: str) -> float:
    if not cell.isascii() or "_" in cell:
        return NO_NUMBER
    try:
        value = float(cell)
    except ValueError:
        return NO_NUMBER
    return value if isfinite(value) else NOT_FINITE
