"""Noise that a model gets most wrong, or most right."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from unlearning.horizontal.noise import Noise, error_maximising, error_minimising

MODEL = torch.nn.Linear(4, 3)
LABELS = torch.tensor([0, 0, 1, 2])
START = torch.zeros(4, 4)


def test_one_makes_errors_and_one_unmakes_them() -> None:
    plan = Noise(penalty=0.0)
    losses = [
        float(cross_entropy(MODEL(noise), LABELS).detach())
        for noise in (
            error_maximising(MODEL, START, LABELS, plan),
            START,
            error_minimising(MODEL, START, LABELS, plan),
        )
    ]
    assert losses[0] > losses[1] + 0.5 > losses[1] > losses[2] + 0.3


def test_the_penalty_is_on_the_mean_of_squared_norms() -> None:
    """Where the model says nothing, noise is the root of the penalty: Adam walks it to zero."""
    start, silent = torch.ones(4, 4), lambda noise: 0 * noise
    found = error_maximising(silent, start, LABELS, Noise(steps=1, learning_rate=0.1))
    assert torch.allclose(found, start - 0.1, atol=1e-4)
    free = error_maximising(silent, start, LABELS, Noise(steps=5, penalty=0.0))
    assert torch.equal(free, start)


def test_neither_the_model_nor_the_start_is_touched() -> None:
    before = [each.detach().clone() for each in MODEL.parameters()]
    for makes in (error_maximising, error_minimising):
        makes(MODEL, START, LABELS, Noise(steps=3))
    assert not START.any()
    assert all(torch.equal(a, b) for a, b in zip(before, MODEL.parameters(), strict=True))
    assert all(each.grad is None for each in MODEL.parameters())


@pytest.mark.parametrize("steps", [1, 7])
def test_so_many_steps_of_adam(steps: int) -> None:
    """With a constant gradient Adam's step is the rate itself."""
    plan = Noise(steps=steps, learning_rate=0.01)
    found = error_minimising(lambda noise: torch.stack([noise[:, 0], 0 * noise[:, 0]], 1),
                             torch.full((2, 1), -9.0), torch.tensor([0, 0]), plan)  # fmt: skip
    assert torch.allclose(found, torch.full((2, 1), -9.0 + 0.01 * steps), atol=1e-4)
