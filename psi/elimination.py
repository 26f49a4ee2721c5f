"""Linear equations over GF(2) whose unknowns are bit strings: a few rows, as Python integers."""

from collections.abc import Sequence

Equation = tuple[int, int]  # the unknowns as bits, the value


def solve(rows: Sequence[int], values: Sequence[int], free: Sequence[int]) -> list[int] | None:
    """Find x with ⊕_{bit u of rows[e]} x[u] = values[e] for every equation e.

    ``free`` gives the value of each unknown that the equations leave open. None if the rows are
    linearly dependent.
    """
    pivots: dict[int, Equation] = {}
    for equation in zip(rows, values, strict=True):
        row, value = _reduced(equation, pivots)
        if not row:
            return None
        pivots[row.bit_length() - 1] = (row, value)
    return _back_substituted(pivots, list(free))


def _reduced(equation: Equation, pivots: dict[int, Equation]) -> Equation:
    row, value = equation
    while row and (pivot := pivots.get(row.bit_length() - 1)):
        row, value = row ^ pivot[0], value ^ pivot[1]
    return row, value


def _back_substituted(pivots: dict[int, Equation], solution: list[int]) -> list[int]:
    for top in sorted(pivots):
        row, value = pivots[top]
        rest = row ^ (1 << top)
        while rest:
            low = rest & -rest
            value ^= solution[low.bit_length() - 1]
            rest ^= low
        solution[top] = value
    return solution
