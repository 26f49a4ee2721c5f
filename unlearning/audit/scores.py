"""What an attack's scores on two groups of rows amount to: AUC, distinguishability, TPR at 1 % FPR.

``positives`` are the scores of those whom the attack should find, ``negatives`` of the others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]
FEWEST = 100  # negatives; below it one false positive is more than 1 %
FOLDS = 5


@dataclass(frozen=True, slots=True)
class Distinguishability:
    """max(AUC, 1 - AUC), as an attack that is always wrong is one that is always right."""

    value: float
    sign: int  # -1 where the attack works with its answer turned


def auc(positives: Floats, negatives: Floats) -> float:
    """The chance that a positive outranks a negative, ties by half."""
    truth = np.repeat([1, 0], [len(positives), len(negatives)])
    return float(roc_auc_score(truth, np.concatenate([positives, negatives])))


def distinguishability(auc: float) -> Distinguishability:
    """How far apart the groups are, whichever comes out on top."""
    return Distinguishability(max(auc, 1 - auc), -1 if auc < 0.5 else 1)


def tpr_at(positives: Floats, negatives: Floats, fpr: float = 0.01) -> float:
    """The share of positives above a threshold that at most ``fpr`` of the negatives exceed."""
    allowed = int(fpr * len(negatives))
    threshold = np.sort(negatives)[::-1][allowed]
    return float((positives > threshold).mean())


def crossfit(positives: Floats, negatives: Floats, seed: int) -> tuple[Floats, Floats]:
    """Scores of all rows by a logistic regression that learned from the other folds.

    Takes ``[rows, features]`` of both groups: the attacker knows the group of four rows in five.

    Raises:
        ValueError: a group has fewer rows than there are folds.
    """
    if min(len(positives), len(negatives)) < FOLDS:
        raise ValueError(
            f"{len(positives)} and {len(negatives)} rows are too few for {FOLDS} folds"
        )
    table = np.concatenate([positives, negatives])
    truth = np.repeat([1, 0], [len(positives), len(negatives)])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed % 2**32)
    found = np.empty(len(table))
    for learned, held in folds.split(table, truth):
        attack = make_pipeline(
            StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=500)
        )
        found[held] = attack.fit(table[learned], truth[learned]).decision_function(table[held])
    return found[: len(positives)], found[len(positives) :]
