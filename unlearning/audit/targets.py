"""Figures of models that predict a number, or several binary labels, on test rows."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import (
    hamming_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)

from unlearning.audit.classifier import NO_ROW, NOT_FINITE, Gain, middle
from unlearning.audit.membership import RESAMPLES, Outputs

CONSTANT: Final = "the label is the same in all rows"
SOME_LABEL: Final = "at least one label is the same in all rows"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TargetFigures:
    """Figures of a model that predicts a number or several binary labels.

    Attributes:
        values: by name; only figures with a value. A number: ``r2``, ``mae`` and ``rmse``. Several
            labels: ``auc_macro``, ``auc_micro``, ``hamming_loss`` and ``accuracy``, the subset
            accuracy.
        absent: the reason, for each figure without a value.
    """

    values: dict[str, float]
    absent: dict[str, str]


def number_figures(outputs: Outputs) -> TargetFigures:
    """Return R², mean absolute error and root mean squared error, in the unit of the number.

    ``outputs`` has the predicted numbers, ``[rows, 1]``, and the true ones, ``[rows]``.
    """
    if reason := _undefined(outputs):
        return TargetFigures({}, dict.fromkeys(("r2", "mae", "rmse"), reason))
    truth, found = outputs.labels.double().numpy(), outputs.logits[:, 0].double().numpy()
    values = {
        "mae": float(mean_absolute_error(truth, found)),
        "rmse": float(np.sqrt(mean_squared_error(truth, found))),
    }
    if len(np.unique(truth)) < 2:
        return TargetFigures(values, {"r2": CONSTANT})
    return TargetFigures({"r2": float(r2_score(truth, found)), **values}, {})


def labels_figures(outputs: Outputs) -> TargetFigures:
    """Return AUC (macro and micro), Hamming loss and subset accuracy of several binary labels.

    ``outputs`` has the logits and the labels, ``[rows, labels]`` each. A probability above one half
    counts as 1.
    """
    if reason := _undefined(outputs):
        names = ("auc_macro", "auc_micro", "hamming_loss", "accuracy")
        return TargetFigures({}, dict.fromkeys(names, reason))
    truth, predicted = outputs.labels.numpy() > 0, outputs.logits.numpy() > 0
    values = {
        "hamming_loss": float(hamming_loss(truth, predicted)),
        "accuracy": float((truth == predicted).all(axis=1).mean()),
    }
    if labels_auc(outputs) is None:
        return TargetFigures(values, dict.fromkeys(("auc_macro", "auc_micro"), SOME_LABEL))
    areas = {f"auc_{average}": _auc(outputs, average) for average in ("macro", "micro")}
    return TargetFigures({**areas, **values}, {})


def labels_auc(outputs: Outputs) -> float | None:
    """Return the mean AUC of the labels; None if a label is the same in all rows.

    ``outputs`` has the logits and the labels, ``[rows, labels]`` each.
    """
    truth = outputs.labels > 0
    varies = truth.any(dim=0) & ~truth.all(dim=0)
    return _auc(outputs, "macro") if bool(varies.all()) else None


def label_aucs(outputs: Outputs) -> list[float | None]:
    """Return the AUC of each label; None for a label that is the same in all rows.

    ``outputs`` has the logits and the labels, ``[rows, labels]`` each.
    """
    finite = bool(torch.isfinite(outputs.logits).all())
    columns = zip(outputs.logits.T[..., None], outputs.labels.T[..., None], strict=True)
    return [labels_auc(Outputs(*each)) if finite and len(each[0]) else None for each in columns]


def paired_number_gains(better: Outputs, base: Outputs, seed: int) -> dict[str, Gain]:
    """Return how much better a model predicts a number, with intervals from a paired bootstrap.

    Every resample draws rows with replacement, the same for both models; the interval has the 2.5 %
    and 97.5 % quantiles of the differences.

    Args:
        better: predictions of the one model, ``[rows, 1]``, with the true numbers, ``[rows]``.
        base: predictions of the other model for the same rows.
        seed: of the resamples.

    Returns:
        By name: ``r2``, R² of the one model minus that of the other, and ``mae``, the mean absolute
        error of the other model minus that of the one.
    """
    truth = better.labels.double().numpy()
    errors = [each.logits[:, 0].double().numpy() - truth for each in (better, base)]
    absolute = np.abs(errors[1]) - np.abs(errors[0])
    squared = errors[1] ** 2 - errors[0] ** 2
    generator, rows = np.random.default_rng(seed), len(truth)
    drawn: dict[str, list[float]] = {"r2": [], "mae": []}
    for _ in range(RESAMPLES):
        counts = np.bincount(generator.integers(rows, size=rows), minlength=rows).astype(np.float64)
        drawn["mae"].append(float(counts @ absolute) / rows)
        if (gain := _r2_gain(truth, squared, counts)) is not None:
            drawn["r2"].append(gain)
    values = {"r2": _r2_gain(truth, squared, np.ones(rows)), "mae": float(absolute.mean())}
    return {name: Gain(value, middle(drawn[name])) for name, value in values.items()}


def _r2_gain(truth: Floats, squared: Floats, counts: Floats) -> float | None:
    """The gain in R², if each row occurs as often as ``counts``; None for a constant number.

    ``truth`` are the numbers, ``squared`` the differences of the squared errors: ``[rows]`` each.
    """
    mean = (counts @ truth) / counts.sum()
    spread = counts @ (truth - mean) ** 2
    return float(counts @ squared / spread) if spread > 0 else None


def _auc(outputs: Outputs, average: str) -> float:
    scores = torch.sigmoid(outputs.logits.detach().double()).numpy()
    return float(roc_auc_score(outputs.labels.numpy() > 0, scores, average=average))


def _undefined(outputs: Outputs) -> str:
    """Why no figure is defined; empty if some are."""
    if not len(outputs.labels):
        return NO_ROW
    return "" if bool(torch.isfinite(outputs.logits).all()) else NOT_FINITE
