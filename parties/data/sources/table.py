"""The table: feature columns as numbers and codes, of which only chosen rows become a frame."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from parties.data.sources.records import Array, Index


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Table:
    """Columns of one party.

    Attributes:
        numeric: names of the columns of ``numbers``.
        categorical: names of the columns of ``codes``, and the texts that their codes number.
        numbers: [read, numeric] float64, NaN where a value is absent.
        codes: [read, categorical] int32, -1 where a value is absent.
        order: rows that stand here, of all that were read; None: all of them.
    """

    numeric: tuple[str, ...]
    categorical: dict[str, tuple[str, ...]]
    numbers: Array
    codes: Array
    order: Index | None = None

    def __len__(self) -> int:
        return len(self.numbers if self.order is None else self.order)

    def frame(self, rows: Index | None = None) -> pd.DataFrame:
        """The chosen rows, [rows], or all; NaN or None where a value is absent."""
        chosen = np.arange(len(self)) if rows is None else rows
        chosen = chosen if self.order is None else self.order[chosen]
        numbers = pd.DataFrame(np.asarray(self.numbers[chosen]), columns=list(self.numeric))
        codes = self.codes[chosen]
        texts = {
            name: pd.Series(np.array([*known, None], object)[codes[:, at]], dtype=object)
            for at, (name, known) in enumerate(self.categorical.items())  # code -1: the last
        }
        return pd.concat([numbers, pd.DataFrame(texts)], axis=1) if texts else numbers

    def take(self, rows: Index) -> "Table":
        """The table of the chosen rows; no column is copied."""
        return replace(self, order=rows if self.order is None else self.order[rows])

    def joined(self, others: "Sequence[Table]") -> "Table":
        """This table of numbers and others of the same columns, below each other."""
        return numeric_table(
            self.numeric, np.concatenate([each.numbers for each in (self, *others)])
        )


def numeric_table(names: tuple[str, ...], numbers: Array) -> Table:
    """A table of numbers only, [rows, names]."""
    codes = np.empty((len(numbers), 0), np.int32)
    return Table(numeric=names, categorical={}, numbers=numbers.astype(np.float64), codes=codes)
