"""Tests of the utility metrics, by hand and of a random model."""

import math

import pytest
import torch

from unlearning.audit import utility
from unlearning.audit.intervals import share_interval
from unlearning.audit.membership import Outputs


def outputs(
    predicted: list[int], labels: list[int], classes: int = 2, logit: float = 9.0
) -> Outputs:
    logits = torch.zeros(len(predicted), classes)
    logits[torch.arange(len(predicted)), torch.tensor(predicted)] = logit
    return Outputs(logits, torch.tensor(labels))


def accuracy(result: Outputs) -> float:
    return float(utility.predicted_correctly(result).double().mean())


def test_three_of_four_right() -> None:
    result = outputs([0, 0, 0, 1], [0, 0, 1, 1])
    assert accuracy(result) == 0.75
    # F1 of class 0 is 4/5, of class 1 is 2/3.
    assert utility.macro_f1(result) == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_balanced_accuracy_weights_classes_equally() -> None:
    result = outputs([0] * 10, [0] * 9 + [1])
    assert accuracy(result) == 0.9
    assert utility.balanced_accuracy(result) == 0.5


def test_a_class_without_rows_is_left_out_of_the_mean() -> None:
    assert utility.balanced_accuracy(outputs([0, 2], [0, 1], classes=3)) == 0.5


def test_auroc_of_two_classes_only() -> None:
    logits = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]])
    assert utility.auroc(Outputs(logits, torch.tensor([0, 1, 0, 1]))) == 0.75
    assert utility.auroc(Outputs(logits, torch.tensor([1, 1, 1, 1]))) is None
    assert utility.auroc(outputs([0, 1], [0, 1], classes=3)) is None


def test_losses_by_hand() -> None:
    assert utility.row_losses(outputs([0], [1], logit=0.0)).item() == pytest.approx(math.log(2))


def test_calibration_error_by_hand() -> None:
    # Confidence ¾ where half are right, and ½ where all are: (2 · ¼ + 2 · ½) / 4.
    logits = torch.tensor([[math.log(3), 0.0]] * 2 + [[0.0, 0.0]] * 2)
    result = utility.calibration_error(Outputs(logits, torch.tensor([0, 1, 0, 0])))
    assert result == pytest.approx(3 / 8)


def test_each_neighbour_is_returned_once() -> None:
    pool = torch.tensor([[0.0], [1.0], [5.0], [9.0]])
    assert utility.nearest_rows(torch.tensor([[0.4], [0.6]]), pool, 2).tolist() == [0, 1]
    assert utility.nearest_rows(torch.tensor([[8.0]]), pool, 10).tolist() == [0, 1, 2, 3]


def test_a_random_model_fails_utility() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 10, (500,), generator=generator)
    logits = torch.randn(500, 10, generator=generator)
    result = accuracy(Outputs(logits, labels))
    assert share_interval(round(result * 500), 500)[1] < 0.2
    assert float(utility.row_losses(Outputs(logits, labels)).mean()) > math.log(10)
