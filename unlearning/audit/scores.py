"""Quality of an attack's scores on two groups of rows: AUC, distinguishability, TPR at 1 % FPR.

``positives`` are the scores of the rows that the attack should find, ``negatives`` are the scores
of all other rows.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unlearning.audit.intervals import ConfidenceInterval, Z, auc_chance_error, auc_variance

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
MIN_NEGATIVES = 100  # with fewer, one false positive is more than 1 %
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Distinguishability:
    """The larger of AUC and 1 − AUC: below an AUC of 0.5, the attacker reverses the answers."""

    value: float
    sign: int  # -1 if the attack works with its answer reversed


def auc(positives: Floats, negatives: Floats) -> float:
    """Return the AUC: how often a positive row has a higher score than a negative row.

    The AUC is a fraction of all pairs of rows; a pair with equal scores counts half.
    ``positives`` and ``negatives`` are the scores of the two groups, ``[rows]`` each.
    """
    truth = np.repeat([1, 0], [len(positives), len(negatives)])
    return float(roc_auc_score(truth, np.concatenate([positives, negatives])))


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """An attack's scores of one group of rows, with the classes of these rows."""

    scores: Floats  # [rows]
    labels: Labels  # [rows]


def within_class_auc(positives: ScoredRows, negatives: ScoredRows) -> ConfidenceInterval | None:
    """Return the AUC over pairs of rows of the same class, with its 95 % confidence interval.

    A score that depends on the class only gives 0.5, whatever the class mixes of the two groups.
    Rows of a class that is missing in the other group are not compared; ``n`` of the result counts
    the positive rows that are compared. The result is None if the groups have no common class.
    """
    parts = []
    for label in np.intersect1d(positives.labels, negatives.labels):
        sides = [each.scores[each.labels == label] for each in (positives, negatives)]
        parts.append((auc(*sides), len(sides[0]), len(sides[1])))
    if not parts:
        return None
    # van Elteren 1960: classes are weighted by the inverse of their variance without a difference.
    weights = np.array([auc_chance_error(n, m) ** -2 for _, n, m in parts])
    weights /= weights.sum()
    value = float(weights @ [each for each, _, _ in parts])
    variance = float(weights**2 @ [auc_variance(value, n, m) for _, n, m in parts])
    half = Z * sqrt(variance)
    rows = sum(n for _, n, _ in parts)
    return ConfidenceInterval(value, max(0.0, value - half), min(1.0, value + half), rows)


def distinguishability(auc: float) -> Distinguishability:
    """Return how well an attack of this AUC separates the groups, whichever group scores higher."""
    return Distinguishability(max(auc, 1 - auc), -1 if auc < 0.5 else 1)


def tpr_at_fpr(positives: Floats, negatives: Floats, fpr: float = 0.01) -> float:
    """Return the true positive rate at a threshold with a false positive rate of at most ``fpr``.

    ``positives`` and ``negatives`` are the scores of the two groups, ``[rows]`` each.
    """
    allowed = int(fpr * len(negatives))
    threshold = np.sort(negatives)[::-1][allowed]
    return float((positives > threshold).mean())


def cross_fitted_scores(positives: Floats, negatives: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return each row's score by a logistic regression that was fitted to the other folds.

    ``positives`` and ``negatives`` are ``[rows, features]`` of each group; the results are
    ``[rows]`` of each group. The attacker is assumed to know the group of every row in four of the
    five folds.

    Raises:
        ValueError: a group has fewer rows than there are folds.
    """
    if min(len(positives), len(negatives)) < FOLDS:
        raise ValueError(
            f"an attack with {FOLDS}-fold cross-validation needs {FOLDS} or more rows in each "
            f"group (got {len(positives)} and {len(negatives)})"
        )
    table = np.concatenate([positives, negatives])
    truth = np.repeat([1, 0], [len(positives), len(negatives)])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed % 2**32)
    scores = np.empty(len(table))
    for fitted, held in folds.split(table, truth):
        attack = make_pipeline(
            StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=500)
        )
        scores[held] = attack.fit(table[fitted], truth[fitted]).decision_function(table[held])
    return scores[: len(positives)], scores[len(positives) :]
