"""Figures of the trained model on test rows, as a user of the model asks for them."""

import torch
from torch import Tensor

from parties.report.record import Confusion, ModelFigures
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.evaluation.trained.alone import alone_figures
from protocol import vfl_pb2
from unlearning.audit.classifier import classifier_figures, confusion_counts, youden_threshold
from unlearning.audit.membership import Outputs


def model_figures(split_model: SplitModel) -> ModelFigures:
    """Measure the current model on test rows; only two classes need outputs on validation rows."""
    labels, rows = split_model.labels, split_model.rows
    names = split_model.agreement.labels.classes
    test = Outputs(split_model.logits(vfl_pb2.TEST), labels[rows.test])
    found = classifier_figures(test)
    measured, wanted = "accuracy" in found.values, split_model.agreement.evaluation.alone
    majority = int(torch.bincount(labels[rows.train], minlength=len(names)).argmax())
    return ModelFigures(
        rows=len(rows.test),
        **found.values,
        majority_class=names[majority],
        majority_accuracy=_share(test.labels == majority),
        absent=found.absent,
        confusion=_confusion(split_model, test) if measured else None,
        alone=alone_figures(split_model, test) if measured and wanted else None,
    )


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
