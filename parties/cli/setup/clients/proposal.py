"""Ranges and vocabularies that a client proposes from its own rows, without values of single rows.

The agreement shows a range or a vocabulary to all parties. A range is therefore rounded outwards,
and a text that few rows have is left out.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

import numpy as np

from configs.columns import AgreedColumn
from parties.common.errors import DataError
from parties.data.holding import Holding
from parties.data.sources.arrays import Array

MIN_ROWS: Final = 5  # a text, or the exact end of a range, must be in at least so many rows
_STEPS: Final = 10  # a range has at least so many steps to whose multiples its ends are rounded


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """What a client's rows show of one column.

    Attributes:
        name: name of the column.
        low: smallest number; None for texts.
        high: largest number; None for texts.
        proposed: the range or the vocabulary that the client proposes.
        rare: number of different texts that fewer than ``MIN_ROWS`` rows have.
    """

    name: str
    low: float | None
    high: float | None
    proposed: AgreedColumn
    rare: int = 0


def column_values(holding: Holding, order: Sequence[str]) -> list[ColumnValues]:
    """Return what the rows show of each column, in the order of the names ``order``.

    Raises:
        DataError: no text of a categorical column is in ``MIN_ROWS`` rows.
    """
    table = holding.table
    if table is None:
        raise DataError("the table has no feature columns", "name a table with columns")
    found = {
        name: _numbers(name, np.asarray(table.numbers[:, at]))
        for at, name in enumerate(table.numeric)
    }
    for at, (name, texts) in enumerate(table.categorical.items()):
        counts = Counter(table.codes[:, at].tolist())
        found[name] = _texts(name, {text: counts[code] for code, text in enumerate(texts)})
    return [found[name] for name in order]


def outward_range(values: Array) -> tuple[float, float]:
    """Return the range of numbers, ``[rows]``, rounded outwards to multiples of a round step.

    The step is 1, 2 or 5 times a power of ten, and at most a tenth of the range. An end that is the
    value of fewer than ``MIN_ROWS`` rows is moved outwards by one step.
    """
    low, high = float(values.min()), float(values.max())
    step = _round_step((high - low) or max(abs(low), 1.0))
    ends = []
    for value, rounding, sign in ((low, ROUND_FLOOR, -1), (high, ROUND_CEILING, 1)):
        multiple = (Decimal(value) / step).quantize(Decimal(1), rounding)
        end = float(multiple * step)
        if end == value and (values == value).sum() < MIN_ROWS:
            end = float((multiple + sign) * step)
        ends.append(end)
    if ends[0] == ends[1]:  # all rows have the same round number
        ends[1] = float(Decimal(ends[1]) + step)
    return ends[0], ends[1]


def plain_number(number: float) -> str:
    """Return a number as people and TOML write it: whole numbers without a point."""
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _round_step(span: float) -> Decimal:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most a tenth of ``span``."""
    most = Decimal(span) / _STEPS
    power = Decimal(1).scaleb(most.adjusted())
    return max(times * power for times in (1, 2, 5) if times * power <= most)


def _numbers(name: str, values: Array) -> ColumnValues:
    present = values[~np.isnan(values)]
    low, high = float(present.min()), float(present.max())
    return ColumnValues(name, low, high, AgreedColumn(name=name, range=outward_range(present)))


def _texts(name: str, counts: dict[str, int]) -> ColumnValues:
    frequent = sorted(text for text, count in counts.items() if count >= MIN_ROWS)
    if not frequent:
        raise DataError(
            f"each text of column {name!r} is in fewer than {MIN_ROWS} rows, and the agreement "
            "shows no text of so few rows",
            f"leave the column out with --ignore {name!r}, or use more rows",
        )
    column = AgreedColumn(name=name, vocabulary=tuple(frequent))
    return ColumnValues(name, None, None, column, len(counts) - len(frequent))
