"""Figures of the trained model on test rows, as a user of the model asks for them."""

from typing import Any

import torch
from torch import Tensor

from parties.report.record import Confusion, ModelFigures
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.trained.alone import alone_figures
from parties.vertical.evaluation.trained.importance import permutation_importance
from protocol import vfl_pb2
from unlearning.audit.classifier import classifier_figures, confusion_counts, youden_threshold
from unlearning.audit.membership import Outputs
from unlearning.audit.targets import label_aucs, labels_figures, number_figures


def model_figures(split_model: SplitModel) -> ModelFigures:
    """Measure the current model on test rows; only two classes need outputs on validation rows."""
    labels, rows = split_model.labels, split_model.rows
    read = split_model.read(vfl_pb2.TEST)
    test = Outputs(read.logits, labels[rows.test])
    task = split_model.agreement.labels.task
    measure = {
        "classification": _of_classes,
        "regression": _of_number,
        "multilabel": _of_labels,
    }
    figures = measure[task](split_model, test)
    measured = {"accuracy", "mae"} & figures.keys()
    wanted = measured and split_model.agreement.evaluation.alone
    alone = alone_figures(split_model, test) if wanted else None
    count = split_model.agreement.evaluation.importance
    importance = permutation_importance(split_model, read, count) if count and measured else None
    return ModelFigures(
        task=task, rows=len(rows.test), alone=alone, importance=importance, **figures
    )


def _of_classes(split_model: SplitModel, test: Outputs) -> dict[str, Any]:
    """The figures of a model that predicts one of several classes."""
    labels, rows = split_model.labels, split_model.rows
    names = split_model.agreement.labels.classes
    found = classifier_figures(test)
    majority = int(torch.bincount(labels[rows.train], minlength=len(names)).argmax())
    return {
        **found.values,
        "majority_class": names[majority],
        "majority_accuracy": _share(test.labels == majority),
        "absent": found.absent,
        "confusion": _confusion(split_model, test) if "accuracy" in found.values else None,
    }


def _of_number(split_model: SplitModel, test: Outputs) -> dict[str, Any]:
    """The figures of a model that predicts a number, and of always predicting its mean."""
    learned = split_model.labels[split_model.rows.train].double()
    constant = learned.mean().expand(len(test.labels), 1)
    found, base = number_figures(test), number_figures(Outputs(constant, test.labels)).values
    return {
        **found.values,
        "mean": learned.mean().item(),
        "mean_mae": base.get("mae"),
        "mean_rmse": base.get("rmse"),
        "absent": found.absent,
    }


def _of_labels(split_model: SplitModel, test: Outputs) -> dict[str, Any]:
    """The figures of a model that predicts several binary labels."""
    found, areas = labels_figures(test), label_aucs(test)
    names = split_model.agreement.labels.classes
    label_auc = {name: area for name, area in zip(names, areas, strict=True) if area is not None}
    return {**found.values, "label_auc": label_auc, "absent": found.absent}


def _share(chosen: Tensor) -> float | None:
    return chosen.double().mean().item() if len(chosen) else None


def _confusion(split_model: SplitModel, test: Outputs) -> Confusion:
    names, threshold = split_model.agreement.labels.classes, None
    if len(names) == 2:
        validation = split_model.logits(vfl_pb2.VALIDATION)
        truth = split_model.labels[split_model.rows.validation]
        threshold = youden_threshold(Outputs(validation, truth))
    return Confusion(
        classes=names,
        rule="most probable" if threshold is None else "youden",
        threshold=threshold,
        counts=tuple(map(tuple, confusion_counts(test, threshold))),
    )
