"""Figures of a classifier on test rows, as banks use them, and what more columns bring."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    roc_auc_score,
    roc_curve,
)
from torch import Tensor

from unlearning.audit.membership import RESAMPLES, Outputs
from unlearning.audit.utility import auroc, calibration_error, predicted_correctly

NOT_FINITE: Final = "the outputs of the model are not finite"
NO_ROW: Final = "there is no row"
ONE_CLASS: Final = "only one of the classes has rows"
SOME_CLASS: Final = "at least one class has no row"
TWO_CLASSES: Final = "defined for two classes only"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ClassifierFigures:
    """Figures of a classifier; the second of two classes is the positive one.

    Attributes:
        values: by name: ``auc``, ``average_precision``, ``ks``, ``gini``, ``log_loss``,
            ``calibration_error``, ``brier``, ``accuracy``; only those with a value.
        absent: the reason, for each figure without a value.
    """

    values: dict[str, float]
    absent: dict[str, str]


def probabilities(logits: Tensor) -> Floats:
    """Return the probabilities of the classes, ``[rows, classes]``, from logits of this shape."""
    found: Floats = torch.softmax(logits.detach().double(), dim=1).numpy()
    return found


def roc_auc(outputs: Outputs) -> float | None:
    """Return the area under the ROC curve; for several classes, the mean of one against the rest.

    The result is None if a class has no row.
    """
    classes = outputs.logits.shape[1]
    if classes == 2:
        return auroc(outputs)
    if len(torch.unique(outputs.labels)) < classes:
        return None
    found = probabilities(outputs.logits)
    return float(roc_auc_score(outputs.labels.numpy(), found, multi_class="ovr", average="macro"))


def classifier_figures(outputs: Outputs) -> ClassifierFigures:
    """Return the figures of a classifier on some rows, with a reason for each that is absent."""
    if not len(outputs.labels) or not bool(torch.isfinite(outputs.logits).all()):
        reason = NOT_FINITE if len(outputs.labels) else NO_ROW
        return ClassifierFigures(
            {}, dict.fromkeys((*_OF_RANKS, *_OF_TWO_CLASSES, *_OF_ROWS), reason)
        )
    values = {name: figure(outputs) for name, figure in _OF_ROWS.items()}
    two, area = outputs.logits.shape[1] == 2, roc_auc(outputs)
    absent = {} if two else dict.fromkeys(_OF_TWO_CLASSES, TWO_CLASSES)
    if area is None:
        names = (*_OF_RANKS, *_OF_TWO_CLASSES)
        return ClassifierFigures(
            values, dict.fromkeys(names, ONE_CLASS if two else SOME_CLASS) | absent
        )
    values |= {"auc": area, "average_precision": _average_precision(outputs)}
    if two:
        values |= {"ks": _ks(outputs), "gini": 2 * area - 1}
    return ClassifierFigures(values, absent)


def _average_precision(outputs: Outputs) -> float:
    truth, found = outputs.labels.numpy(), probabilities(outputs.logits)
    if found.shape[1] == 2:
        return float(average_precision_score(truth, _score(outputs)))
    return float(average_precision_score(np.eye(found.shape[1])[truth], found, average="macro"))


def _ks(outputs: Outputs) -> float:
    """Return the largest distance between the two classes' distributions of the score."""
    false, true, _ = roc_curve(outputs.labels.numpy() == 1, _score(outputs))
    return float((true - false).max())


def _log_loss(outputs: Outputs) -> float:
    found = probabilities(outputs.logits)
    return float(log_loss(outputs.labels.numpy(), found, labels=np.arange(found.shape[1])))


def _brier(outputs: Outputs) -> float:
    """Return the mean squared error of the probabilities; of the second class if there are two."""
    found = probabilities(outputs.logits)
    return float(brier_score_loss(outputs.labels.numpy(), found, labels=np.arange(found.shape[1])))


def _score(outputs: Outputs) -> Floats:
    """Return the score of the second of two classes: the difference of the logits, ``[rows]``."""
    logits = outputs.logits.detach().double()
    found: Floats = (logits[:, 1] - logits[:, 0]).numpy()
    return found


def _accuracy(outputs: Outputs) -> float:
    return predicted_correctly(outputs).double().mean().item()


# Figures that compare rows of different classes, and so need rows of each class.
_OF_RANKS: Final = ("auc", "average_precision")
_OF_TWO_CLASSES: Final = ("ks", "gini")
_OF_ROWS: Final[dict[str, Callable[[Outputs], float]]] = {
    "log_loss": _log_loss,
    "calibration_error": calibration_error,
    "brier": _brier,
    "accuracy": _accuracy,
}


def youden_threshold(outputs: Outputs) -> float | None:
    """Return the probability of the second class from which a row is predicted to have it.

    It maximises Youden's J, the true positive rate minus the false positive rate; of several such
    values, it is the largest. The result is None if there are not two classes with rows.
    """
    if outputs.logits.shape[1] != 2 or len(torch.unique(outputs.labels)) < 2:
        return None
    if not bool(torch.isfinite(outputs.logits).all()):
        return None
    score = probabilities(outputs.logits)[:, 1]
    false, true, thresholds = roc_curve(outputs.labels.numpy(), score, drop_intermediate=False)
    # The first threshold is infinite: no row is positive.
    return float(thresholds[1:][np.argmax((true - false)[1:])])


def confusion_counts(outputs: Outputs, threshold: float | None) -> list[list[int]]:
    """Return the number of rows by true class (outer list) and predicted class.

    Without ``threshold``, the most probable class is predicted.
    """
    found = probabilities(outputs.logits)
    predicted = found.argmax(axis=1) if threshold is None else found[:, 1] >= threshold
    classes = np.arange(found.shape[1])
    counts: list[list[int]] = confusion_matrix(
        outputs.labels.numpy(), predicted.astype(np.int64), labels=classes
    ).tolist()
    return counts


@dataclass(frozen=True, slots=True)
class Gain:
    """How much higher a figure of one model is than that of another, on the same rows."""

    value: float | None  # the difference; None if one of the two figures is not defined
    ci95: tuple[float, float] | None  # its 95 % confidence interval


@dataclass(frozen=True, slots=True)
class Gains:
    """How much better one model is than another, on the same rows."""

    auc: Gain
    accuracy: Gain


def paired_gains(better: Tensor, base: Tensor, labels: Tensor, seed: int) -> Gains:
    """Return how much higher AUC and accuracy are, with intervals from a paired bootstrap.

    Every resample draws rows with replacement, the same for both models; the interval has the 2.5 %
    and 97.5 % quantiles of the differences. A resample in which a class has no row counts for the
    accuracy only.

    Args:
        better: logits of the one model, ``[rows, classes]``.
        base: logits of the other model on the same rows, ``[rows, classes]``.
        labels: ``[rows]``.
        seed: of the resamples.
    """
    one, other = Outputs(better, labels), Outputs(base, labels)
    hits = [predicted_correctly(each).double().numpy() for each in (one, other)]
    accuracy = float(hits[0].mean() - hits[1].mean())
    areas = [roc_auc(each) for each in (one, other)]
    defined = areas[0] is not None and areas[1] is not None
    ranks = [RankedScores(each) for each in (one, other)] if defined else []
    generator, rows = np.random.default_rng(seed), len(labels)
    differences: dict[str, list[float]] = {"auc": [], "accuracy": []}
    for _ in range(RESAMPLES):
        counts = np.bincount(generator.integers(rows, size=rows), minlength=rows).astype(np.float64)
        differences["accuracy"].append(float(counts @ (hits[0] - hits[1])) / rows)
        resampled = [each.auc(counts) for each in ranks]
        if resampled and resampled[0] is not None and resampled[1] is not None:
            differences["auc"].append(resampled[0] - resampled[1])
    gain = None if areas[0] is None or areas[1] is None else areas[0] - areas[1]
    intervals = {name: middle(each) for name, each in differences.items()}
    return Gains(Gain(gain, intervals["auc"]), Gain(accuracy, intervals["accuracy"]))


def middle(values: list[float]) -> tuple[float, float] | None:
    """Return the middle 95 % of the ``values`` of a bootstrap; None if most resamples have none."""
    if 2 * len(values) < RESAMPLES:
        return None
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


class RankedScores:
    """The ranks of a model's scores, from which the AUC of many resamples is computed.

    It is the AUC of scikit-learn with the counts as weights, without sorting for each resample.
    """

    def __init__(self, outputs: Outputs) -> None:
        """Rank the scores of all rows: of the second class if there are two, else of each class."""
        two, truth = outputs.logits.shape[1] == 2, outputs.labels.numpy()
        found = _score(outputs)[:, None] if two else probabilities(outputs.logits)
        self._ranks = [
            (np.unique(column, return_inverse=True)[1], truth == (1 if two else label))
            for label, column in enumerate(found.T)
        ]

    def auc(self, counts: Floats) -> float | None:
        """Return the AUC if each row occurs as often as ``counts``, ``[rows]``, says.

        The result is None if a class does not occur.
        """
        areas = []
        for rank, positive in self._ranks:
            above = np.bincount(rank, counts * positive)
            below = np.bincount(rank, counts * ~positive)
            pairs = above.sum() * below.sum()
            if not pairs:
                return None
            # The Mann-Whitney statistic: a pair with equal scores counts one half.
            areas.append(float(above @ (below.cumsum() - below / 2)) / pairs)
        return float(np.mean(areas))
