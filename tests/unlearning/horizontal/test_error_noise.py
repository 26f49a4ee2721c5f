"""Tests of error-maximising and error-minimising noise."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from unlearning.horizontal.error_noise import (
    ErrorNoisePlan,
    error_maximising_noise,
    error_minimising_noise,
)

MODEL = torch.nn.Linear(4, 3)
LABELS = torch.tensor([0, 0, 1, 2])
START = torch.zeros(4, 4)


def test_the_loss_is_higher_on_maximising_and_lower_on_minimising_noise() -> None:
    plan = ErrorNoisePlan(penalty=0.0)
    losses = [
        float(cross_entropy(MODEL(noise), LABELS).detach())
        for noise in (
            error_maximising_noise(MODEL, START, LABELS, plan),
            START,
            error_minimising_noise(MODEL, START, LABELS, plan),
        )
    ]
    assert losses[0] > losses[1] + 0.5 > losses[1] > losses[2] + 0.3


def test_the_penalty_is_on_the_mean_of_squared_norms() -> None:
    """If the model gives no gradient, only the penalty acts and moves the noise towards zero."""
    start, constant = torch.ones(4, 4), lambda noise: 0 * noise
    result = error_maximising_noise(
        constant, start, LABELS, ErrorNoisePlan(steps=1, learning_rate=0.1)
    )
    assert torch.allclose(result, start - 0.1, atol=1e-4)
    free = error_maximising_noise(constant, start, LABELS, ErrorNoisePlan(steps=5, penalty=0.0))
    assert torch.equal(free, start)


def test_the_model_and_the_initial_noise_do_not_change() -> None:
    before = [each.detach().clone() for each in MODEL.parameters()]
    for learn in (error_maximising_noise, error_minimising_noise):
        learn(MODEL, START, LABELS, ErrorNoisePlan(steps=3))
    assert not START.any()
    assert all(torch.equal(a, b) for a, b in zip(before, MODEL.parameters(), strict=True))
    assert all(each.grad is None for each in MODEL.parameters())


@pytest.mark.parametrize("steps", [1, 7])
def test_the_number_of_steps(steps: int) -> None:
    """With a constant gradient each step of Adam is the learning rate."""
    plan = ErrorNoisePlan(steps=steps, learning_rate=0.01)
    result = error_minimising_noise(lambda noise: torch.stack([noise[:, 0], 0 * noise[:, 0]], 1),
                             torch.full((2, 1), -9.0), torch.tensor([0, 0]), plan)  # fmt: skip
    assert torch.allclose(result, torch.full((2, 1), -9.0 + 0.01 * steps), atol=1e-4)
