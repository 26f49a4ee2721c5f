"""The backdoor audit by hand."""

import pytest
import torch

from unlearning.audit.backdoor import backdoor, is_valid

ZERO, ONE = [1.0, 0.0], [0.0, 1.0]


def test_excess_by_hand() -> None:
    labels = torch.tensor([0, 1, 1, 1, 1])  # the first is of the target class: it does not count
    triggered = torch.tensor([ZERO, ZERO, ZERO, ZERO, ONE])
    plain = torch.tensor([ZERO, ZERO, ONE, ONE, ONE])
    found = backdoor(triggered, plain, labels, target=0)
    assert (found.success, found.base, found.rows) == (0.75, 0.25, 4)
    assert found.excess == 0.5
    assert not is_valid(found)


def test_a_trigger_that_was_learned_makes_the_run_valid() -> None:
    labels, always = torch.tensor([1, 1]), torch.tensor([ZERO, ZERO])
    assert is_valid(backdoor(always, torch.tensor([ONE, ONE]), labels, target=0))


def test_rows_of_the_target_alone_are_refused() -> None:
    with pytest.raises(ValueError, match="every row is of the target class"):
        backdoor(torch.tensor([ZERO]), torch.tensor([ZERO]), torch.tensor([0]), target=0)
