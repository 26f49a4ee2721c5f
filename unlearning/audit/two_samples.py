"""Two-sample tests: whether the outputs of two models come from one distribution.

A large p-value does not show equivalence: with few rows, a test rarely detects a difference. The
``equivalence`` module tests for equivalence. In a permutation test, the observed sample counts as
one of the permutations.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

Floats = NDArray[np.float64]
MAX_ROWS = 500  # of each model whose pairwise distances are computed
FOLDS = 5


@dataclass(frozen=True, slots=True)
class TwoSampleTest:
    """A test statistic and its p-value."""

    statistic: float
    p: float
    n: int  # rows of each model


def holm_correction(p_values: Sequence[float]) -> list[float]:
    """Return the p-values with Holm's correction for multiple tests, in the given order."""
    # Holm 1979: the k-th smallest of m is multiplied by m − k + 1; then made monotone.
    order = np.argsort(p_values, kind="stable")
    scaled = np.asarray(p_values)[order] * np.arange(len(order), 0, -1)
    corrected = np.empty(len(order))
    corrected[order] = np.minimum(1, np.maximum.accumulate(scaled))
    return [float(p) for p in corrected]


def ks_by_class(ours: Floats, theirs: Floats, labels: NDArray[np.int64]) -> TwoSampleTest:
    """Test each class by Kolmogorov-Smirnov; return the largest D and smallest Holm-corrected p.

    ``ours`` and ``theirs`` are one number per row, ``[rows]``; ``labels`` are the classes of the
    rows, ``[rows]``.
    """
    classes = [labels == label for label in np.unique(labels)]
    with warnings.catch_warnings():
        # Where p is 1, rounding makes scipy's exact p a little larger, and scipy takes another way.
        warnings.filterwarnings("ignore", "ks_2samp: Exact calculation unsuccessful")
        found = [ks_2samp(ours[rows], theirs[rows], method="auto") for rows in classes]
    corrected = holm_correction([float(each.pvalue) for each in found])
    return TwoSampleTest(max(float(each.statistic) for each in found), min(corrected), len(labels))


def energy_test(
    ours: Floats, theirs: Floats, generator: np.random.Generator, permutations: int = 199
) -> TwoSampleTest:
    """Return the energy distance of two models' outputs on the SAME rows, with its p-value.

    ``ours`` and ``theirs`` are ``[rows, width]``. The p-value comes from permutations, which
    exchange the two models' outputs at random within rows. It tests whether the two are one
    function, not whether they come from one training: two independent Retrains differ, too (of 30
    pairs on 100 rows of digits, 67 % have p < 0.05), so the p-values of Retrains belong beside it.
    If there are more than 500 rows, the
    test uses a random sample of 500.

    Raises:
        ValueError: the outputs have different shapes, or there is no row.
    """
    _check_same_rows(ours, theirs, 1)
    if len(ours) > MAX_ROWS:
        chosen = generator.permutation(len(ours))[:MAX_ROWS]
        ours, theirs = ours[chosen], theirs[chosen]
    both = np.concatenate([ours, theirs])
    apart = cdist(both, both)
    swaps = generator.choice([-1.0, 1.0], (permutations + 1, len(ours))) / len(ours)
    swaps[0] = 1 / len(ours)
    drawn = np.concatenate([swaps, -swaps], axis=1)
    # Székely and Rizzo 2013: 2E|X − Y| − E|X − X'| − E|Y − Y'|.
    statistics = -np.einsum("pi,ij,pj->p", drawn, apart, drawn, optimize=True)
    return TwoSampleTest(float(statistics[0]), _p_value(statistics), len(ours))


def classifier_test(
    ours: Floats, theirs: Floats, generator: np.random.Generator, permutations: int = 99
) -> TwoSampleTest:
    """Return the C2ST: the accuracy of a classifier that predicts which model made an output.

    ``ours`` and ``theirs`` are two models' outputs on the SAME rows, ``[rows, width]``. The
    classifier is a logistic regression with 5-fold cross-validation. The two outputs of a row are
    in the same fold, and permutations exchange outputs only within rows (Lopez-Paz and Oquab 2017).

    Raises:
        ValueError: the outputs have different shapes, or fewer rows than there are folds.
    """
    _check_same_rows(ours, theirs, FOLDS)
    both = np.concatenate([ours, theirs])  # unchanged by exchanges within rows
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
            _classifier_accuracy(np.where(swap, theirs, ours), np.where(swap, ours, theirs), folds)
            for swap in swaps
        ]
    )
    return TwoSampleTest(float(found[0]), _p_value(found), len(ours))


def _classifier_accuracy(
    ours: Floats, theirs: Floats, folds: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]
) -> float:
    right = 0
    for fitted, held in folds:
        classifier = LogisticRegression(max_iter=500)
        table = np.concatenate([ours[fitted], theirs[fitted]])
        classifier.fit(table, np.repeat([1, 0], len(fitted)))
        right += int(
            classifier.predict(ours[held]).sum() + (1 - classifier.predict(theirs[held])).sum()
        )
    return right / (2 * len(ours))


def _p_value(statistics: Floats) -> float:
    """Return the share of draws as large as the first, the observed one, up to rounding."""
    return float((statistics >= statistics[0] - 1e-12).mean())


def _check_same_rows(ours: Floats, theirs: Floats, least: int) -> None:
    if ours.shape != theirs.shape or len(ours) < least:
        raise ValueError(
            f"the outputs of the two models must have the same shape, with {least} or more rows "
            f"(got shapes {ours.shape} and {theirs.shape})"
        )
