"""Utility by hand, and a random model that fails it."""

import math

import pytest
import torch

from unlearning.audit import utility
from unlearning.audit.intervals import of_share
from unlearning.audit.membership import Outputs


def outputs(said: list[int], labels: list[int], classes: int = 2, sure: float = 9.0) -> Outputs:
    logits = torch.zeros(len(said), classes)
    logits[torch.arange(len(said)), torch.tensor(said)] = sure
    return Outputs(logits, torch.tensor(labels))


def test_three_of_four_right() -> None:
    found = outputs([0, 0, 0, 1], [0, 0, 1, 1])
    assert utility.accuracy(found) == 0.75
    # F1 of class 0 is 4/5, of class 1 is 2/3.
    assert utility.macro_f1(found) == pytest.approx((4 / 5 + 2 / 3) / 2)


def test_the_larger_class_does_not_hide_the_smaller_one() -> None:
    found = outputs([0] * 10, [0] * 9 + [1])
    assert utility.accuracy(found) == 0.9
    assert utility.balanced_accuracy(found) == 0.5


def test_a_class_without_rows_is_left_out_of_the_mean() -> None:
    assert utility.balanced_accuracy(outputs([0, 2], [0, 1], classes=3)) == 0.5


def test_auroc_of_two_classes_only() -> None:
    logits = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, 3.0], [0.0, 4.0]])
    assert utility.auroc(Outputs(logits, torch.tensor([0, 1, 0, 1]))) == 0.75
    assert utility.auroc(Outputs(logits, torch.tensor([1, 1, 1, 1]))) is None
    assert utility.auroc(outputs([0, 1], [0, 1], classes=3)) is None


def test_losses_by_hand() -> None:
    assert utility.losses(outputs([0], [1], sure=0.0)).item() == pytest.approx(math.log(2))


def test_calibration_error_by_hand() -> None:
    # Confidence ¾ where half are right, and ½ where all are: (2 · ¼ + 2 · ½) / 4.
    logits = torch.tensor([[math.log(3), 0.0]] * 2 + [[0.0, 0.0]] * 2)
    found = utility.calibration_error(Outputs(logits, torch.tensor([0, 1, 0, 0])))
    assert found == pytest.approx(3 / 8)


def test_neighbours_are_named_once_each() -> None:
    pool = torch.tensor([[0.0], [1.0], [5.0], [9.0]])
    assert utility.neighbours(torch.tensor([[0.4], [0.6]]), pool, 2).tolist() == [0, 1]
    assert utility.neighbours(torch.tensor([[8.0]]), pool, 10).tolist() == [0, 1, 2, 3]


def test_a_random_model_fails_utility() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 10, (500,), generator=generator)
    logits = torch.randn(500, 10, generator=generator)
    found = utility.accuracy(Outputs(logits, labels))
    assert of_share(round(found * 500), 500)[1] < 0.2
    assert float(utility.losses(Outputs(logits, labels)).mean()) > math.log(10)
