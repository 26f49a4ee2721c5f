"""A feature table as a pandas data frame.

This is a module of its own, because an intersection reads tables and does not need pandas.
"""

import numpy as np
import pandas as pd

from parties.data.sources.arrays import Index
from parties.data.sources.table import Table


def data_frame(table: Table, rows: Index | None = None) -> pd.DataFrame:
    """Return the rows of ``table`` with the indices ``rows``, ``[n]``; None: all rows.

    An absent value is NaN in a numeric column and None in a categorical column.
    """
    chosen = np.arange(len(table)) if rows is None else rows
    chosen = chosen if table.order is None else table.order[chosen]
    numbers = pd.DataFrame(np.asarray(table.numbers[chosen]), columns=list(table.numeric))
    codes = table.codes[chosen]
    texts = {
        # The code -1 is the last entry, None.
        name: pd.Series(np.array([*known, None], object)[codes[:, at]], dtype=object)
        for at, (name, known) in enumerate(table.categorical.items())
    }
    return pd.concat([numbers, pd.DataFrame(texts)], axis=1) if texts else numbers
