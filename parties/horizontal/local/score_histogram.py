"""Histogram of a model's scores on a client's rows; the server receives only the histogram.

Notation: p_y = the predicted probability of a row's true class; φ = log p_y - log(1 - p_y), the
score of the row, which is the log odds of the true class. The membership inference attack uses only
the scores φ. To compute the attack, the server needs only the number of scores in each bin.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_SCORE, BIN_WIDTH = 12.0, 0.25  # of φ; 12 means p_y = 0.999994
BINS = round(2 * MAX_SCORE / BIN_WIDTH)


def score_histogram(scores: Tensor) -> tuple[int, ...]:
    """Return the number of scores in each of ``BINS`` equally wide bins.

    The bins cover the range from -``MAX_SCORE`` to ``MAX_SCORE``.

    ``scores`` are the φ of the rows, ``[rows]``. A score of NaN, for example of a diverged model,
    counts as the lowest score.
    """
    known = scores.double().nan_to_num(nan=-MAX_SCORE).clamp(-MAX_SCORE, MAX_SCORE)
    found = torch.histc(known, BINS, -MAX_SCORE, MAX_SCORE)
    return tuple(int(each) for each in found)


def histogram_scores(counts: Sequence[int]) -> NDArray[np.float64]:
    """Return one score per counted row, ``[rows]``: the middle of the bin that contains the row."""
    middles = -MAX_SCORE + BIN_WIDTH * (np.arange(len(counts)) + 0.5)
    return np.repeat(middles, counts)


def add_histograms(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of several clients' histograms."""
    whole = np.array([*counts, [0] * BINS], np.int64).sum(axis=0)
    return tuple(int(each) for each in whole.tolist())


def ks_distance(ours: Sequence[int], theirs: Sequence[int]) -> float | None:
    """Return the Kolmogorov-Smirnov distance of two histograms, in [0, 1].

    The result is None if one of the histograms is empty.
    """
    if not sum(ours) or not sum(theirs):
        return None
    first = np.cumsum(np.asarray(ours)) / sum(ours)
    second = np.cumsum(np.asarray(theirs)) / sum(theirs)
    return float(np.abs(first - second).max())
