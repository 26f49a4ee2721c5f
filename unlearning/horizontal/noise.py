"""Noise on which a model errs most, or least: it stands in for rows that nobody shows (FedMM).

Letters (UNSIR, Tarun et al. 2023; EMMN, Chundawat et al. 2023): N = noise ``[rows, ...]``, of which
every row bears a label; the model stays as it is while N is learned.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """How it is learned, with Adam.

    Attributes:
        rows: of every class.
        penalty: on the mean of ‖N‖², of noise that maximises: its loss has no end.
    """

    rows: int = 256
    steps: int = 40
    learning_rate: float = 0.1
    penalty: float = 0.1


def error_maximising(
    model: Callable[[Tensor], Tensor], start: Tensor, labels: Tensor, plan: Noise
) -> Tensor:
    """Noise that the model least believes to be of ``labels``: min −L_ce(N) + penalty ‖N‖²."""

    def loss(noise: Tensor) -> Tensor:
        size = noise.flatten(1).square().sum(dim=1).mean()
        return plan.penalty * size - cross_entropy(model(noise), labels)

    return _descended(loss, start, plan)


def error_minimising(
    model: Callable[[Tensor], Tensor], start: Tensor, labels: Tensor, plan: Noise
) -> Tensor:
    """Noise that the model takes for ``labels``: min L_ce(N)."""
    return _descended(lambda noise: cross_entropy(model(noise), labels), start, plan)


def _descended(loss: Callable[[Tensor], Tensor], start: Tensor, plan: Noise) -> Tensor:
    noise = start.clone().requires_grad_()
    descent = torch.optim.Adam([noise], plan.learning_rate)
    for _ in range(plan.steps):
        (noise.grad,) = torch.autograd.grad(loss(noise), [noise])
        descent.step()
    return noise.detach()
