"""The quick audit of a request: what can be measured without a Retrain, in seconds."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from models.targets import NumberTarget, Target
from parties.vertical.engine.split_model import SplitModel
from parties.vertical.engine.train import share_correct
from protocol import vfl_pb2
from unlearning.audit.forgetting import label_log_odds, predictive_entropy
from unlearning.audit.intervals import ConfidenceInterval
from unlearning.audit.membership import Outputs
from unlearning.audit.scores import ScoredRows, within_class_auc
from unlearning.audit.targets import number_figures


@dataclass(frozen=True, slots=True)
class QuickAudit:
    """Figures of a model before and after a request, none of which needs a Retrain.

    An AUC compares rows of the same class; it is None if no class has rows on both sides. Labels
    that are not one of several classes count as one class.
    """

    # Accuracy on validation rows, None if none is left; of a number R², None if all rows left have
    # one value.
    validation_before: float | None
    validation_after: float | None
    test_before: float | None  # the same on test rows
    test_after: float | None
    # Accuracy on the rows to forget; of a number None, because R² needs many rows.
    forgotten_before: float | None
    forgotten_after: float | None
    # AUC of an attack that takes rows with a high log-odds of their label for forgotten rows; the
    # other rows are test rows, which no training used. 0.5: not distinguishable. If the labels are
    # not one of several classes, it takes rows with a small loss.
    membership_auc: float | None
    membership_error: float | None  # how far its 95 % interval reaches
    # AUC of an attack that takes rows with a high entropy for forgotten rows. Above 0.5: the
    # forgotten rows stand out. None if the labels are not one of several classes.
    streisand_auc: float | None
    number: bool = False  # whether the model predicts a number

    @property
    def measure(self) -> str:
        """The name of the figure of utility."""
        return "R²" if self.number else "accuracy"

    def loses(self) -> float | None:
        """Return the loss of accuracy, or of R², on validation rows; None if not measured."""
        if self.validation_before is None or self.validation_after is None:
            return None
        return self.validation_before - self.validation_after

    def as_text(self) -> dict[str, str]:
        """Return the figures as texts, for the facts of the new version; R² has its own names."""
        found = {
            name: f"{value:.4f}"
            for name, value in asdict(self).items()
            if value is not None and name != "number"
        }
        if not self.number:
            return found
        return {
            name.replace("_", "_r2_") if name.endswith(("_before", "_after")) else name: value
            for name, value in found.items()
        }


@dataclass(frozen=True, slots=True)
class Readout:
    """Logits of one model on the validation, test and forgotten rows, [rows, classes] each."""

    validation: Tensor
    test: Tensor
    forgotten: Tensor

    def is_finite(self) -> bool:
        """Whether every logit is a finite number."""
        each = (self.validation, self.test, self.forgotten)
        return all(bool(logits.isfinite().all()) for logits in each)


def read_out(split_model: SplitModel) -> Readout:
    """Read the outputs of the present model; call it in a function that is passed to ``once``."""
    return Readout(
        validation=split_model.logits(vfl_pb2.VALIDATION),
        test=split_model.logits(vfl_pb2.TEST),
        forgotten=split_model.logits(vfl_pb2.FORGOTTEN),
    )


def quick_audit(split_model: SplitModel, before: Readout, after: Readout) -> QuickAudit:
    """Compare the outputs before and after a request; D_u is still in the row sets."""
    rows, labels = split_model.rows, split_model.labels
    truth = {
        "validation": labels[rows.validation],
        "test": labels[rows.test],
        "forgotten": labels[rows.forgotten],
    }
    if split_model.agreement.labels.task != "classification":
        return _other_audit(split_model, before, after, truth)
    accuracies: dict[str, Any] = {
        f"{name}_{when}": share_correct(getattr(readout, name), each) if len(each) else None
        for when, readout in (("before", before), ("after", after))
        for name, each in truth.items()
    }
    membership = within_class_auc(
        _scored(label_log_odds(after.forgotten, truth["forgotten"]), truth["forgotten"]),
        _scored(label_log_odds(after.test, truth["test"]), truth["test"]),
    )
    streisand = within_class_auc(
        _scored(predictive_entropy(after.forgotten), truth["forgotten"]),
        _scored(predictive_entropy(after.test), truth["test"]),
    )
    return QuickAudit(
        **accuracies,
        membership_auc=None if membership is None else membership.value,
        membership_error=None if membership is None else membership.margin,
        streisand_auc=None if streisand is None else streisand.value,
    )


def _other_audit(
    split_model: SplitModel, before: Readout, after: Readout, truth: dict[str, Tensor]
) -> QuickAudit:
    """Compare the outputs of models whose labels are not one of several classes.

    ``truth`` has the labels of each kind of rows, [rows] or [rows, labels].
    """
    target = split_model.target
    number = isinstance(target, NumberTarget)
    figures: dict[str, Any] = {}
    for when, readout in (("before", before), ("after", after)):
        for name, labels in truth.items():
            outputs = Outputs(getattr(readout, name), labels)
            figures[f"{name}_{when}"] = (
                _explained(outputs, name)
                if number
                else target.accuracy(outputs.logits, labels)
                if len(labels)
                else None
            )
    membership = loss_attack(
        target,
        Outputs(after.forgotten, truth["forgotten"]),
        Outputs(after.test, truth["test"]),
    )
    return QuickAudit(
        **figures,
        membership_auc=None if membership is None else membership.value,
        membership_error=None if membership is None else membership.margin,
        streisand_auc=None,
        number=number,
    )


def loss_attack(target: Target, forgotten: Outputs, test: Outputs) -> ConfidenceInterval | None:
    """The AUC of an attack that takes rows with a small loss for forgotten rows.

    It compares D_u with test rows, whatever their labels; None without test rows.
    """
    sides = []
    for each in (forgotten, test):
        losses = target.loss(each.logits, each.labels, reduction="none")
        sides.append(_scored(-losses, torch.zeros(len(losses))))
    return within_class_auc(*sides)


def _explained(outputs: Outputs, name: str) -> float | None:
    """R² on the rows ``name``; None for the forgotten rows, which may be few, and if undefined.

    Requests remove validation and test rows, so few rows, or rows of one value, may be left.
    """
    return None if name == "forgotten" else number_figures(outputs).values.get("r2")


def _scored(scores: Tensor, labels: Tensor) -> ScoredRows:
    return ScoredRows(scores.double().numpy(), labels.numpy())
