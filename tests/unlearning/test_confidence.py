"""CVFU's shares, its estimate for who is offline, its sign and its end, by hand."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from unlearning.confidence import Watcher, estimated_change, online_shares
from unlearning.primal_dual import Pull, primal_step

VOTES = {
    "bank": torch.tensor([[3.0, 0.0]]),
    "shop": torch.tensor([[-1.0, 0.0]]),
}


def test_shares_are_of_sizes_and_none_where_nobody_votes() -> None:
    assert online_shares(VOTES, frozenset()).tolist() == [[1.0, 0.0]]
    assert online_shares(VOTES, frozenset({"shop"})).tolist() == [[0.75, 0.0]]


def test_who_is_offline_changes_in_proportion() -> None:
    change = torch.tensor([[0.3, 5.0]])
    found = estimated_change(change, torch.tensor([[0.75, 0.5]]))
    assert found.flatten().tolist() == pytest.approx([0.4, 10.0])


def test_zero_over_zero_is_no_change() -> None:
    shares = online_shares(VOTES, frozenset({"shop"}))
    assert estimated_change(torch.tensor([[0.0, 0.0]]), shares).tolist() == [[0.0, 0.0]]


def test_it_ends_once_nothing_gets_better() -> None:
    seen = Watcher(patience=2)
    story = [
        (1.0, 1.0, True),
        (0.9, 1.04, True),  # the loss falls, and the gradient grew by less than 5 %
        (0.9, 0.5, False),  # the loss does not fall
        (0.8, 0.52, True),  # within 5 % of the least, 0.5
        (0.7, 0.53, False),  # above it
        (0.7, 0.1, False),
    ]
    for loss, gradient, progressed in story:
        assert not seen.ends
        seen = seen.see(loss, gradient)
        assert seen.progressed is progressed
    assert seen.ends


def test_what_is_not_a_number_is_no_progress() -> None:
    seen = Watcher(patience=1).see(1.0, 1.0).see(float("nan"), 0.5)
    assert not seen.progressed
    assert seen.loss == 1.0


@pytest.mark.parametrize("step", [1e-3, 1e-5])
def test_the_subtracted_term_raises_the_loss_on_forgotten_rows_to_first_order(step: float) -> None:
    """Loss(θ + η a g) − Loss(θ) → η a ‖g‖²; with their sign it would fall by as much."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    theta = torch.randn(4, 3, generator=generator, dtype=torch.float64).requires_grad_()

    def loss() -> torch.Tensor:
        return cross_entropy(rows @ theta, labels)

    before = loss()
    (held,) = torch.autograd.grad(before, theta)
    pull = Pull([held], 2.0, [theta.detach().clone()])  # a = 2
    primal_step([theta], None, pull, primal=step, proximal=0.0)
    rise = (loss() - before).item()
    assert rise > 0
    assert rise == pytest.approx(step * 2.0 * held.square().sum().item(), rel=10 * step)
