"""What a model predicts, as its last module: unit of the outputs, loss, and written prediction."""

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy_with_logits,
    cross_entropy,
    l1_loss,
    mse_loss,
)

Reduction = Literal["mean", "sum", "none"]


class ClassTarget(nn.Module):
    """One of several classes: softmax and cross entropy, in which classes may have weights.

    Attributes:
        weights: weight of each class in the loss, ``[classes]``; None if all weights are 1.
    """

    weights: Tensor | None

    def __init__(self, weighted: int | None = None) -> None:
        """Create the target; ``weighted`` is the number of classes if they have weights."""
        super().__init__()
        self.register_buffer("weights", None if weighted is None else torch.ones(weighted))

    @torch.no_grad()
    def weigh(self, weights: Sequence[float]) -> None:
        """Set the weight of each class; the classes of this target must have weights.

        Raises:
            LookupError: the classes have no weights.
        """
        if self.weights is None:
            raise LookupError("the classes of this target have no weights")
        self.weights.copy_(torch.tensor(weights, dtype=torch.float64))

    def row_weights(self, labels: Tensor) -> Tensor:
        """Return the weight of each row in the loss, ``[batch]``; labels: ``[batch]``."""
        if self.weights is None:
            return torch.ones(labels.shape)
        return self.weights.to(labels.device)[labels]

    def forward(self, outputs: Tensor) -> Tensor:
        """Return the logits of the top model unchanged, ``[batch, classes]``."""
        return outputs

    def loss(
        self,
        outputs: Tensor,
        labels: Tensor,
        reduction: Reduction = "mean",
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the cross entropy of ``outputs``, ``[batch, classes]``; labels: ``[batch]``.

        With weights it is the mean over the rows, as in scikit-learn, and not divided by the sum of
        the weights, as in PyTorch: so the losses of two halves of a batch add up to its loss.
        ``weights``, ``[batch]``, are those of the rows; they multiply the weights of the classes.
        """
        of_classes = self.weights
        if of_classes is None and weights is None:
            return cross_entropy(outputs, labels, reduction=reduction)
        if of_classes is not None:
            of_classes = of_classes.to(outputs.device, outputs.dtype)
        each = cross_entropy(outputs, labels, of_classes, reduction="none")
        return _reduced(each, reduction, weights)

    def prediction(self, outputs: Tensor) -> Tensor:
        """Return the probability of each class, ``[batch, classes]``, in float64."""
        return torch.softmax(outputs.double(), dim=1)

    def accuracy(self, outputs: Tensor, labels: Tensor) -> float | None:
        """Return the fraction of the rows in which the logit of the label is the largest one.

        ``outputs`` are ``[rows, classes]``, ``labels`` ``[rows]``.
        """
        return (outputs.argmax(dim=1) == labels).double().mean().item()


class LabelsTarget(nn.Module):
    """Several binary labels: a sigmoid and a binary cross entropy for each label."""

    def forward(self, outputs: Tensor) -> Tensor:
        """Return the logits of the top model unchanged, ``[batch, labels]``."""
        return outputs

    def loss(
        self,
        outputs: Tensor,
        labels: Tensor,
        reduction: Reduction = "mean",
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the binary cross entropy of each row, the mean over its labels, then reduced.

        ``outputs`` are logits, ``[batch, labels]``; ``labels`` are 0 or 1, of the same shape.
        ``weights``, ``[batch]``, are those of the rows.
        """
        each = binary_cross_entropy_with_logits(outputs, labels, reduction="none").mean(dim=1)
        return _reduced(each, reduction, weights)

    def prediction(self, outputs: Tensor) -> Tensor:
        """Return the probability of each label, ``[batch, labels]``, in float64."""
        return torch.sigmoid(outputs.double())

    def accuracy(self, outputs: Tensor, labels: Tensor) -> float | None:
        """Return the subset accuracy: the fraction of the rows with all labels right.

        ``outputs`` and ``labels`` are ``[rows, labels]``; a probability above one half is a 1.
        """
        return ((outputs > 0) == (labels > 0)).all(dim=1).double().mean().item()


def standard_deviation(numbers: Tensor) -> float:
    """Return the standard deviation of numbers, ``[n]``: exactly 0 if all of them are equal.

    Rounding of the mean would give equal numbers a tiny deviation.
    """
    if not len(numbers) or bool(numbers.min() == numbers.max()):
        return 0.0
    return numbers.std(correction=0).item()


class NumberTarget(nn.Module):
    """A number: the top model predicts the standardised number, whose mean and scale are kept here.

    The loss is that of the standardised number, so it does not depend on the unit.

    Attributes:
        mean: mean of the number in the training rows, ``[1]``.
        scale: its standard deviation in the training rows, ``[1]``.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, loss: Literal["squared", "absolute"]) -> None:
        super().__init__()
        losses: dict[str, Callable[..., Tensor]] = {"squared": mse_loss, "absolute": l1_loss}
        self._loss = losses[loss]
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("scale", torch.ones(1))

    @torch.no_grad()
    def standardise(self, mean: float, scale: float) -> None:
        """Set the mean and the standard deviation of the number; a scale of 0 counts as 1."""
        self.mean.fill_(mean)
        self.scale.fill_(scale or 1.0)

    def forward(self, outputs: Tensor) -> Tensor:
        """Return the outputs of the top model in the unit of the number, ``[batch, 1]``."""
        return outputs * self.scale + self.mean

    def loss(
        self,
        outputs: Tensor,
        labels: Tensor,
        reduction: Reduction = "mean",
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of the standardised error; ``outputs``: ``[batch, 1]``.

        ``labels`` are ``[batch]``, in the unit of the number, as the outputs are. ``weights``,
        ``[batch]``, are those of the rows.
        """
        scale = self.scale.to(outputs.device)
        found, truth = outputs[:, 0] / scale, labels / scale
        if weights is None:
            return self._loss(found, truth, reduction=reduction)
        return _reduced(self._loss(found, truth, reduction="none"), reduction, weights)

    def prediction(self, outputs: Tensor) -> Tensor:
        """Return the outputs, ``[batch, 1]``, in float64."""
        return outputs.double()

    def accuracy(self, outputs: Tensor, labels: Tensor) -> float | None:  # noqa: ARG002
        """Return None: a number is not right or wrong; outputs ``[rows, 1]``, labels ``[rows]``."""
        return None


Target = ClassTarget | LabelsTarget | NumberTarget


def build_target(
    task: Literal["classification", "regression", "multilabel"],
    loss: Literal["squared", "absolute"],
    weighted: int | None = None,
) -> Target:
    """Return what a model predicts, for a task.

    Args:
        task: the task.
        loss: the loss of a regression.
        weighted: the number of classes if they have weights in the loss; else None.
    """
    if task == "regression":
        return NumberTarget(loss)
    return ClassTarget(weighted) if task == "classification" else LabelsTarget()


def balanced_weights(labels: Tensor, classes: int) -> list[float]:
    """Return the weight of each class with which all classes have equal parts in the loss.

    It is rows / (classes * rows of the class), where only classes with rows count, as in
    scikit-learn's ``compute_class_weight``. A class without a row has the weight 1.

    Args:
        labels: the classes of the training rows, ``[rows]``.
        classes: the number of classes.
    """
    counts = torch.bincount(labels, minlength=classes).tolist()
    present = sum(count > 0 for count in counts)
    return [len(labels) / (present * count) if count else 1.0 for count in counts]


def _reduced(values: Tensor, reduction: Reduction, weights: Tensor | None) -> Tensor:
    """The mean or the sum of ``values``, ``[batch]``, or the values themselves.

    If there are ``weights``, ``[batch]``, they multiply the values first.
    """
    if weights is not None:
        values = values * weights.to(values.device, values.dtype)
    if reduction == "none":
        return values
    return values.mean() if reduction == "mean" else values.sum()
