"""Model-difference reconstruction: one row's gradient is the row."""

import pytest
import torch

from unlearning.audit.inversion import reconstruct, reconstruction


def test_the_gradient_of_one_row_gives_the_row_away() -> None:
    generator = torch.Generator().manual_seed(0)
    row, others = torch.randn(6, generator=generator), torch.randn(50, 6, generator=generator)
    change = torch.outer(torch.randn(4, generator=generator), row)
    found = reconstruction(change, row, others)
    assert found.cosine == pytest.approx(1.0)
    assert (found.rank, found.candidates) == (0.0, 50)


def test_a_change_that_has_nothing_of_the_row_does_not() -> None:
    row, others = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    found = reconstruction(torch.tensor([[0.0, 3.0]]), row, others)
    assert found.cosine == pytest.approx(0.0)
    assert found.rank == 1.0
    assert reconstruct(torch.tensor([[0.0, 3.0]])).abs().tolist() == pytest.approx([0.0, 1.0])
