"""Tests of the backdoor audit."""

import pytest
import torch

from unlearning.audit.backdoor import backdoor_success, learned_trigger

ZERO, ONE = [1.0, 0.0], [0.0, 1.0]


def test_excess_by_hand() -> None:
    labels = torch.tensor([0, 1, 1, 1, 1])  # the first row is of the target class
    triggered = torch.tensor([ZERO, ZERO, ZERO, ZERO, ONE])
    plain = torch.tensor([ZERO, ZERO, ONE, ONE, ONE])
    result = backdoor_success(triggered, plain, labels, target=0)
    assert (result.success, result.base, result.rows) == (0.75, 0.25, 4)
    assert result.excess == 0.5
    assert not learned_trigger(result)


def test_a_model_that_always_predicts_the_target_learned_the_trigger() -> None:
    labels, always = torch.tensor([1, 1]), torch.tensor([ZERO, ZERO])
    assert learned_trigger(backdoor_success(always, torch.tensor([ONE, ONE]), labels, target=0))


def test_only_rows_of_the_target_class_are_refused() -> None:
    with pytest.raises(ValueError, match="every test row belongs to the target class"):
        backdoor_success(torch.tensor([ZERO]), torch.tensor([ZERO]), torch.tensor([0]), target=0)
