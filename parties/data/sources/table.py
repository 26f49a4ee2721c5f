"""Feature table of a party: numeric columns, and categorical columns as integer codes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parties.data.sources.arrays import Array, Index


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Table:
    """Feature columns of one party.

    Attributes:
        numeric: names of the columns of ``numbers``.
        categorical: name and texts of each column of ``codes``; a code is the index of a text.
        numbers: values of the numeric columns in all rows that were read, ``[read, numeric]`` in
            float64; NaN for an absent value.
        codes: codes of the categorical columns in all rows that were read, ``[read, categorical]``
            in int32; -1 for an absent value.
        order: indices of the selected rows among all rows that were read, ``[rows]``; None: all
            rows are selected.
    """

    numeric: tuple[str, ...]
    categorical: dict[str, tuple[str, ...]]
    numbers: Array
    codes: Array
    order: Index | None = None

    def __len__(self) -> int:
        return len(self.numbers if self.order is None else self.order)

    def take(self, rows: Index) -> "Table":
        """Return a table of the rows with the indices ``rows``, ``[n]``; no column is copied."""
        return replace(self, order=rows if self.order is None else self.order[rows])

    def arranged(self, numeric: Sequence[str], categorical: Sequence[str]) -> "Table":
        """Return the table with its columns in this order; nothing is copied if it has it."""
        if (self.numeric, tuple(self.categorical)) == (tuple(numeric), tuple(categorical)):
            return self
        texts = list(self.categorical)
        return Table(
            numeric=tuple(numeric),
            categorical={name: self.categorical[name] for name in categorical},
            numbers=self.numbers[:, [self.numeric.index(name) for name in numeric]],
            codes=self.codes[:, [texts.index(name) for name in categorical]],
            order=self.order,
        )

    def append_rows(self, others: "Sequence[Table]") -> "Table":
        """Return the rows of this table and ``others``; all must have the same numeric columns."""
        return numeric_table(
            self.numeric, np.concatenate([table.numbers for table in (self, *others)])
        )


def numeric_table(names: tuple[str, ...], numbers: Array) -> Table:
    """Return a table of numeric columns; ``numbers`` has shape ``[rows, names]``."""
    codes = np.empty((len(numbers), 0), np.int32)
    return Table(numeric=names, categorical={}, numbers=numbers.astype(np.float64), codes=codes)
