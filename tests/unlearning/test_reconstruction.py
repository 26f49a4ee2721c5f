"""Tests of the reconstruction of a row from the change of a first layer."""

import pytest
import torch

from unlearning.audit.reconstruction import reconstructed_row, reconstruction_quality


def test_a_row_is_reconstructed_from_its_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    row, others = torch.randn(6, generator=generator), torch.randn(50, 6, generator=generator)
    change = torch.outer(torch.randn(4, generator=generator), row)
    result = reconstruction_quality(change, row, others)
    assert result.cosine == pytest.approx(1.0)
    assert (result.rank, result.candidates) == (0.0, 50)


def test_an_unrelated_change_does_not_reveal_the_row() -> None:
    row, others = torch.tensor([1.0, 0.0]), torch.tensor([[0.0, 1.0], [1.0, 1.0]])
    result = reconstruction_quality(torch.tensor([[0.0, 3.0]]), row, others)
    assert result.cosine == pytest.approx(0.0)
    assert result.rank == 1.0
    assert reconstructed_row(torch.tensor([[0.0, 3.0]])).abs().tolist() == pytest.approx([0.0, 1.0])
