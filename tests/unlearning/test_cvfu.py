"""Tests of CVFU: shares of votes, the estimate for offline parties, early stopping, the sign."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from unlearning.cvfu import EarlyStopping, estimate_full_change, online_shares
from unlearning.primal_dual import UnlearningTerms, primal_step

VOTES = {
    "bank": torch.tensor([[3.0, 0.0]]),
    "shop": torch.tensor([[-1.0, 0.0]]),
}


def test_shares_of_votes_by_hand() -> None:
    assert online_shares(VOTES, frozenset()).tolist() == [[1.0, 0.0]]
    assert online_shares(VOTES, frozenset({"shop"})).tolist() == [[0.75, 0.0]]


def test_offline_parties_change_in_proportion() -> None:
    change = torch.tensor([[0.3, 5.0]])
    result = estimate_full_change(change, torch.tensor([[0.75, 0.5]]))
    assert result.flatten().tolist() == pytest.approx([0.4, 10.0])


def test_an_entry_without_votes_does_not_change() -> None:
    shares = online_shares(VOTES, frozenset({"shop"}))
    assert estimate_full_change(torch.tensor([[0.0, 0.0]]), shares).tolist() == [[0.0, 0.0]]


def test_early_stopping_by_hand() -> None:
    stopping = EarlyStopping(patience=2)
    epochs = [
        (1.0, 1.0, True),
        (0.9, 1.04, True),  # the loss falls, and the gradient grew by less than 5 %
        (0.9, 0.5, False),  # the loss does not fall
        (0.8, 0.52, True),  # within 5 % of the lowest, 0.5
        (0.7, 0.53, False),  # above it
        (0.7, 0.1, False),
    ]
    for loss, gradient, progressed in epochs:
        assert not stopping.should_stop
        stopping = stopping.after_epoch(loss, gradient)
        assert stopping.progressed is progressed
    assert stopping.should_stop


def test_an_epoch_with_nan_loss_is_no_progress() -> None:
    stopping = EarlyStopping(patience=1).after_epoch(1.0, 1.0).after_epoch(float("nan"), 0.5)
    assert not stopping.progressed
    assert stopping.loss == 1.0


@pytest.mark.parametrize("step", [1e-3, 1e-5])
def test_the_subtracted_term_raises_the_loss_on_forgotten_rows_to_first_order(step: float) -> None:
    """Loss(θ + η a g) − Loss(θ) → η a ‖g‖²; with the sign of CVFU's code the loss would fall."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    theta = torch.randn(4, 3, generator=generator, dtype=torch.float64).requires_grad_()

    def loss() -> torch.Tensor:
        return cross_entropy(rows @ theta, labels)

    before = loss()
    (gradient,) = torch.autograd.grad(before, theta)
    terms = UnlearningTerms([gradient], 2.0, [theta.detach().clone()])  # a = 2
    primal_step([theta], None, terms, primal=step, proximal=0.0)
    rise = (loss() - before).item()
    assert rise > 0
    assert rise == pytest.approx(step * 2.0 * gradient.square().sum().item(), rel=10 * step)
