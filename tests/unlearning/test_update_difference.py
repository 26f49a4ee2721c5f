"""The update-difference attack: its features by hand, and a deletion that it finds."""

import math

import pytest
import torch

from unlearning.audit.scores import auc, crossfit
from unlearning.audit.update_difference import changes, differences


def test_features_stand_in_the_originals_order() -> None:
    before, after = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.0, 0.0]])
    root = math.sqrt(2 / 16)
    wanted = [0.75, 0.25, 0.5, 0.5, 0.25, -0.25, root]
    assert differences(before, after)[0].tolist() == pytest.approx(wanted)


def test_what_changed_is_found_and_what_did_not_is_not() -> None:
    generator = torch.Generator().manual_seed(0)
    before = torch.randn(200, 4, generator=generator)
    after = before + 0.1 * torch.randn(200, 4, generator=generator)
    wiped = after.clone()
    wiped[:100] *= 0.2
    for outputs, low, high in ((wiped, 0.9, 1.0), (after, 0.3, 0.7)):
        table = differences(before, outputs)
        assert low <= auc(*crossfit(table[:100], table[100:], 3)) <= high


def test_embeddings_are_compared_alike() -> None:
    row = changes(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))[0]
    assert row.tolist() == [3.0, 0.0, 0.0, 4.0, 3.0, -4.0, 5.0]
