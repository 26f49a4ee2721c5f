"""Linear equations over GF(2) whose unknowns are bit strings: a few rows, as Python integers."""

from collections.abc import Sequence


def solve(rows: Sequence[int], values: Sequence[int], free: Sequence[int]) -> list[int] | None:
    """Find x with ⊕_{bit u of rows[e]} x[u] = values[e] for every equation e.

    ``free`` gives the value of each unknown that the equations leave open. None if the rows are
    linearly dependent.
    """
    pivots: dict[int, tuple[int, int]] = {}
    for row, value in zip(rows, values, strict=True):
        while row and (top := row.bit_length() - 1) in pivots:
            row, value = row ^ pivots[top][0], value ^ pivots[top][1]
        if not row:
            return None
        pivots[top] = (row, value)
    return _back_substituted(pivots, list(free))


def _back_substituted(pivots: dict[int, tuple[int, int]], solution: list[int]) -> list[int]:
    for top in sorted(pivots):
        row, value = pivots[top]
        rest = row ^ (1 << top)
        while rest:
            low = rest & -rest
            value ^= solution[low.bit_length() - 1]
            rest ^= low
        solution[top] = value
    return solution
