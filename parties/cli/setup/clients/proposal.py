"""Ranges and vocabularies that a client proposes from its own rows.

The agreement shows a range or a vocabulary to all parties. A range is therefore rounded outwards,
by at most a tenth of its width, so that it shows the smallest and the largest number roughly; a
column with few numbers has no range, and a text that few rows have is left out.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Final

import numpy as np

from configs.columns import LONGEST_WORD, MOST_WORDS, AgreedColumn
from parties.common.errors import DataError
from parties.data.holding import Holding
from parties.data.sources.arrays import Array

MIN_ROWS: Final = 5  # rows that a text, the exact end of a range, or a column of numbers needs
_STEPS: Final = 10  # a range has at least so many steps to whose multiples its ends are rounded


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """What a client's rows show of one column.

    Attributes:
        name: name of the column.
        present: number of rows with a number; 0 for texts.
        ends: smallest and largest number; None for texts.
        range: range of the numbers, rounded outwards; None for texts.
        counts: number of rows of each text; empty for numbers.
    """

    name: str
    present: int = 0
    ends: tuple[float, float] | None = None
    range: tuple[float, float] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def frequent(self, known: Collection[str] = ()) -> list[str]:
        """Return the texts that are not in ``known`` and that ``MIN_ROWS`` rows have, sorted."""
        return sorted(set(self._new(known)) - set(self.rare(known)))

    def rare(self, known: Collection[str] = ()) -> list[str]:
        """Return the texts that are not in ``known`` and that fewer than ``MIN_ROWS`` rows have."""
        return [text for text in self._new(known) if self.counts[text] < MIN_ROWS]

    def _new(self, known: Collection[str]) -> list[str]:
        return [text for text in self.counts if text not in known]


def column_values(holding: Holding, order: Sequence[str]) -> list[ColumnValues]:
    """Return what the rows show of each column, in the order of the names ``order``.

    Raises:
        DataError: the table has no columns.
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
        rows = {text: counts[code] for code, text in enumerate(texts)}
        found[name] = ColumnValues(name, counts=rows)
    return [found[name] for name in order]


def proposed_column(own: ColumnValues) -> AgreedColumn:
    """Return the column of a new agreement that shows no value of fewer than ``MIN_ROWS`` rows.

    Raises:
        DataError: the column has too few numbers, no frequent text, or too many or too long texts.
    """
    hint = f"leave the column out with --ignore {own.name!r}, or use more rows"
    if own.range is not None:
        if own.present < MIN_ROWS:
            raise few_numbers(own, f"{hint}; to use it, give all clients a range by hand")
        return AgreedColumn(name=own.name, range=own.range)
    frequent = own.frequent()
    if not frequent:
        raise DataError(
            f"each text of column {own.name!r} is in fewer than {MIN_ROWS} rows, and the agreement "
            "shows no text of so few rows",
            hint,
        )
    refuse_large_vocabulary(
        own.name, frequent, f"leave the column out with --ignore {own.name!r}, or use fewer texts"
    )
    return AgreedColumn(name=own.name, vocabulary=tuple(frequent))


def few_numbers(own: ColumnValues, hint: str) -> DataError:
    """Return the error for a range of so few rows that it would show their numbers."""
    return DataError(
        f"column {own.name!r} has a number in only {count_text(own.present, 'row')}, and a range "
        f"of fewer than {MIN_ROWS} rows would show their numbers to all parties",
        hint,
    )


def refuse_large_vocabulary(name: str, texts: Sequence[str], hint: str) -> None:
    """Check the limits of a vocabulary.

    Raises:
        DataError: there are too many texts, or a text is too long; the message shows no text.
    """
    if len(texts) > MOST_WORDS:
        raise DataError(
            f"column {name!r} has {len(texts)} different texts for the vocabulary, which may have "
            f"at most {MOST_WORDS}",
            hint,
        )
    longest = max(map(len, texts), default=0)
    if longest > LONGEST_WORD:
        raise DataError(
            f"column {name!r} has a text of {longest} characters, and a text of a vocabulary has "
            f"at most {LONGEST_WORD}",
            hint,
        )


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


def count_text(number: int, thing: str, several: str = "") -> str:
    """Return a number with its noun, in the plural unless it is 1: ``count_text(2, "row")``."""
    return f"{number} {thing if number == 1 else several or f'{thing}s'}"


def _round_step(span: float) -> Decimal:
    """Return the largest of 1, 2 and 5 times a power of ten that is at most a tenth of ``span``."""
    most = Decimal(span) / _STEPS
    power = Decimal(1).scaleb(most.adjusted())
    return max(times * power for times in (1, 2, 5) if times * power <= most)


def _numbers(name: str, values: Array) -> ColumnValues:
    present = values[~np.isnan(values)]
    ends = float(present.min()), float(present.max())
    return ColumnValues(name, len(present), ends, outward_range(present))
