"""Tests of the update-difference attack: features by hand, and a deletion that is found."""

import math

import pytest
import torch

from unlearning.audit.scores import auc, cross_fitted_scores
from unlearning.audit.update_difference import change_features, output_change_features


def test_classes_are_ordered_by_the_probability_before() -> None:
    before, after = torch.tensor([[0.0, math.log(3)]]), torch.tensor([[0.0, 0.0]])
    root = math.sqrt(2 / 16)
    expected = [0.75, 0.25, 0.5, 0.5, 0.25, -0.25, root]
    assert output_change_features(before, after)[0].tolist() == pytest.approx(expected)


def test_only_changed_rows_are_found() -> None:
    generator = torch.Generator().manual_seed(0)
    before = torch.randn(200, 4, generator=generator)
    after = before + 0.1 * torch.randn(200, 4, generator=generator)
    forgot = after.clone()
    forgot[:100] *= 0.2
    for outputs, low, high in ((forgot, 0.9, 1.0), (after, 0.3, 0.7)):
        table = output_change_features(before, outputs)
        assert low <= auc(*cross_fitted_scores(table[:100], table[100:], 3)) <= high


def test_features_of_embeddings_by_hand() -> None:
    row = change_features(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))[0]
    assert row.tolist() == [3.0, 0.0, 0.0, 4.0, 3.0, -4.0, 5.0]
