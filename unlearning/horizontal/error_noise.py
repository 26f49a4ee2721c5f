"""Error-maximising and error-minimising noise, which replaces rows that are not available (FedMM).

Notation (UNSIR, Tarun et al. 2023; EMMN, Chundawat et al. 2023): N = noise, ``[rows, ...]``, each
row with a label; L_ce = cross entropy of the model on N. The model does not change while N is
learned.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorNoisePlan:
    """Settings for learning the noise with Adam."""

    rows: int = 256  # number of noise rows per class
    steps: int = 40
    learning_rate: float = 0.1
    # Weight of the mean of ‖N‖² in the loss of error-maximising noise, which has no lower bound
    # without this penalty.
    penalty: float = 0.1


def error_maximising_noise(
    model: Callable[[Tensor], Tensor], start: Tensor, labels: Tensor, plan: ErrorNoisePlan
) -> Tensor:
    """Return noise that minimises the model's probability of ``labels``, ``[rows, ...]``.

    ``model`` maps ``[rows, ...]`` to logits ``[rows, classes]``; ``start`` is the initial noise,
    ``[rows, ...]``, and ``labels`` are ``[rows]``.
    """

    # UNSIR (Tarun et al. 2023): min −L_ce(N) + penalty · mean ‖N‖².
    def loss(noise: Tensor) -> Tensor:
        size = noise.flatten(1).square().sum(dim=1).mean()
        return plan.penalty * size - cross_entropy(model(noise), labels)

    return _minimised(loss, start, plan)


def error_minimising_noise(
    model: Callable[[Tensor], Tensor], start: Tensor, labels: Tensor, plan: ErrorNoisePlan
) -> Tensor:
    """Return noise that maximises the model's probability of ``labels``, ``[rows, ...]``.

    ``model`` maps ``[rows, ...]`` to logits ``[rows, classes]``; ``start`` is the initial noise,
    ``[rows, ...]``, and ``labels`` are ``[rows]``.
    """
    # EMMN (Chundawat et al. 2023): min L_ce(N).
    return _minimised(lambda noise: cross_entropy(model(noise), labels), start, plan)


def _minimised(loss: Callable[[Tensor], Tensor], start: Tensor, plan: ErrorNoisePlan) -> Tensor:
    noise = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([noise], plan.learning_rate)
    for _ in range(plan.steps):
        (noise.grad,) = torch.autograd.grad(loss(noise), [noise])
        optimiser.step()
    return noise.detach()
