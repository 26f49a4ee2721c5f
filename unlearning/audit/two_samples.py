"""Two-sample tests: whether two models' outputs come from one distribution.

A p-value that is not small is no equivalence: with few rows every test is silent. Equivalence has a
test of its own, in ``equivalence``. All p-values count the sample at hand as one of the draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

Floats = NDArray[np.float64]
MOST = 500  # rows of each side whose pairwise distances are looked at
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Test:
    """A statistic, and how often chance alone gives one as large."""

    __test__ = False  # not a test of pytest

    statistic: float
    p: float
    n: int  # rows of each side


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number (Holm 1979), in the order given."""
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1, np.maximum.accumulate(scaled))
    return [float(p) for p in corrected]


def ks_by_class(ours: Floats, theirs: Floats, labels: NDArray[np.int64]) -> Test:
    """Kolmogorov-Smirnov on one number a row, class by class: largest D, smallest Holm p."""
    classes = [labels == label for label in np.unique(labels)]
    found = [ks_2samp(ours[rows], theirs[rows], method="auto") for rows in classes]
    corrected = holm([float(each.pvalue) for each in found])
    return Test(max(float(each.statistic) for each in found), min(corrected), len(labels))


def energy_test(
    ours: Floats, theirs: Floats, generator: np.random.Generator, permutations: int = 199
) -> Test:
    """Energy distance 2E|X-Y| - E|X-X'| - E|Y-Y'| of two models' outputs on the SAME rows.

    Székely and Rizzo 2013; its p by swaps of the sides within rows. Of more than 500 rows, 500 are
    drawn.

    Raises:
        ValueError: the sides have different rows, or none.
    """
    _same(ours, theirs, 1)
    if len(ours) > MOST:
        chosen = generator.permutation(len(ours))[:MOST]
        ours, theirs = ours[chosen], theirs[chosen]
    both = np.concatenate([ours, theirs])
    apart = cdist(both, both)
    swaps = generator.choice([-1.0, 1.0], (permutations + 1, len(ours))) / len(ours)
    swaps[0] = 1 / len(ours)
    drawn = np.concatenate([swaps, -swaps], axis=1)
    statistics = -np.einsum("pi,ij,pj->p", drawn, apart, drawn, optimize=True)
    return Test(float(statistics[0]), _p(statistics), len(ours))


def classifier_test(
    ours: Floats, theirs: Floats, generator: np.random.Generator, permutations: int = 99
) -> Test:
    """C2ST: how often a logistic regression, in 5 folds, tells whose outputs a row has.

    Lopez-Paz and Oquab 2017. The sides are two models' outputs on the SAME rows, ``[rows, width]``:
    both outputs of a row are in one fold, and a permutation swaps them within rows.

    Raises:
        ValueError: the sides have different rows, or fewer than there are folds.
    """
    _same(ours, theirs, FOLDS)
    both = np.concatenate([ours, theirs])  # the same whichever side a row's outputs are on
    spread = both.std(axis=0)
    ours, theirs = (
        (side - both.mean(axis=0)) / np.where(spread > 0, spread, 1) for side in (ours, theirs)
    )
    folds = list(
        KFold(FOLDS, shuffle=True, random_state=int(generator.integers(2**31))).split(ours)
    )
    swaps = generator.integers(0, 2, (permutations + 1, len(ours), 1)).astype(bool)
    swaps[0] = False
    found = np.array(
        [
            _told_apart(np.where(swap, theirs, ours), np.where(swap, ours, theirs), folds)
            for swap in swaps
        ]
    )
    return Test(float(found[0]), _p(found), len(ours))


def _told_apart(
    ours: Floats, theirs: Floats, folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> float:
    right = 0
    for learned, held in folds:
        judge = LogisticRegression(max_iter=500)
        table = np.concatenate([ours[learned], theirs[learned]])
        judge.fit(table, np.repeat([1, 0], len(learned)))
        right += int(judge.predict(ours[held]).sum() + (1 - judge.predict(theirs[held])).sum())
    return right / (2 * len(ours))


def _p(statistics: Floats) -> float:
    """The share of draws as large as the first, which is the sample's own (with rounding)."""
    return float((statistics >= statistics[0] - 1e-12).mean())


def _same(ours: Floats, theirs: Floats, least: int) -> None:
    if ours.shape != theirs.shape or len(ours) < least:
        raise ValueError(f"needs the same {least} or more rows of both, not {len(ours)}")
