"""Tests of the label leakage attacks, on gradients made by hand and of a forgetting score."""

import pytest
import torch

from unlearning.audit.leakage import cosine_scores, label_leakage, norm_scores
from unlearning.objectives import forgetting_scores

GRADIENTS = torch.tensor([[1.0, 0.0], [2.0, 0.1], [-1.0, 0.0], [-3.0, 0.3]])
LABELS = torch.tensor([0, 0, 1, 1])


def test_scores_by_hand() -> None:
    assert cosine_scores(GRADIENTS, 0)[[0, 2]].tolist() == pytest.approx([1.0, -1.0])
    assert norm_scores(GRADIENTS)[[0, 2]].tolist() == pytest.approx([1.0, 1.0])


def test_opposite_gradients_reveal_the_label() -> None:
    assert label_leakage(GRADIENTS, LABELS, known=0).cosine == 1.0


def test_longer_gradients_of_one_label_reveal_it() -> None:
    lengths = torch.tensor([[1.0], [5.0], [1.0], [6.0]])
    assert label_leakage(lengths, torch.tensor([1, 1, 0, 1]), known=0).norm == 1.0


def test_equal_gradients_reveal_nothing() -> None:
    same = label_leakage(torch.ones(4, 2), LABELS, known=0)
    assert (same.cosine, same.norm, same.rows) == (0.5, 0.5, 3)


def test_the_forgetting_score_of_fitted_rows_reveals_their_labels() -> None:
    """The score uses no label, but its gradient follows the prediction and so the label."""
    labels = torch.tensor([0, 1] * 20)
    noise = torch.rand(40, 2, generator=torch.Generator().manual_seed(0))
    logits = (4.0 * torch.nn.functional.one_hot(labels, 2) + noise).requires_grad_()
    [received] = torch.autograd.grad(forgetting_scores(logits, 2.0).mean(), logits)
    assert label_leakage(received, labels, known=0).cosine == 1.0


def test_rows_of_one_label_are_refused() -> None:
    with pytest.raises(ValueError, match="no AUC can be computed"):
        label_leakage(GRADIENTS, torch.tensor([0, 1, 1, 1]), known=0)
