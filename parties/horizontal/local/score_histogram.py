"""How sure a model is of a client's rows, as counts: what the server learns in place of rows.

Letters: φ = log p_y - log(1 - p_y), the odds of a row's own class. Both sides of a membership
attack are told apart by φ alone, so counts by φ are all that the server needs of a client.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST, WIDTH = 12.0, 0.25  # of φ: beyond 12 lies p_y > 0.999994
BINS = round(2 * MOST / WIDTH)


def counted(odds: Tensor) -> tuple[int, ...]:
    """Of φ, ``[rows]``, how many rows lie in each of ``BINS`` parts of [-``MOST``, ``MOST``].

    What is no number, as of a model that diverged, counts as the least.
    """
    known = odds.double().nan_to_num(nan=-MOST).clamp(-MOST, MOST)
    found = torch.histc(known, BINS, -MOST, MOST)
    return tuple(int(each) for each in found)


def spread(counts: Sequence[int]) -> NDArray[np.float64]:
    """The rows' φ again, each at the middle of its part."""
    middles = -MOST + WIDTH * (np.arange(len(counts)) + 0.5)
    return np.repeat(middles, counts)


def pooled(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The counts of several clients' rows together."""
    whole = np.array([*counts, [0] * BINS], np.int64).sum(axis=0)
    return tuple(int(each) for each in whole.tolist())


def apart(ours: Sequence[int], theirs: Sequence[int]) -> float | None:
    """Kolmogorov and Smirnov's distance of two counts, in [0, 1]; None where one is empty."""
    if not sum(ours) or not sum(theirs):
        return None
    first = np.cumsum(np.asarray(ours)) / sum(ours)
    second = np.cumsum(np.asarray(theirs)) / sum(theirs)
    return float(np.abs(first - second).max())
