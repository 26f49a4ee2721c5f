"""Tests of the top models: outputs in party order, and refused embeddings."""

import pytest
import torch
from torch import nn

from models.tops import ConcatHead, SumHead


def test_concat_head_reads_embeddings_in_party_order() -> None:
    head = ConcatHead([2, 1], [], 2)
    [layer] = head.perceptron.children()
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]))
        layer.bias.zero_()
    logits = head([torch.tensor([[1.0, 10.0]]), torch.tensor([[100.0]])])
    assert logits.tolist() == [[321.0, 100.0]]


def test_sum_head_adds_logits_and_bias() -> None:
    head = SumHead(2)
    with torch.no_grad():
        head.bias.copy_(torch.tensor([0.5, -0.5]))
    assert head([torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])]).tolist() == [[4.5, 5.5]]


def test_concat_head_refuses_a_missing_party() -> None:
    with pytest.raises(ValueError, match=r"widths \[2, 1\] in party order \(got \[2\]\)"):
        ConcatHead([2, 1], [4], 2)([torch.zeros(1, 2)])


def test_sum_head_refuses_an_embedding_that_is_not_logits() -> None:
    with pytest.raises(ValueError, match="width"):
        SumHead(3)([torch.zeros(1, 3), torch.zeros(1, 2)])


def test_sum_head_refuses_an_empty_list() -> None:
    with pytest.raises(ValueError, match=r"got \[\]"):
        SumHead(3)([])
