"""Steps of a population: N models learn from N orders of rows at once."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.agreement import Training
from models.ensemble import Ensemble
from parties.experiments.population.pooled_data import Together
from parties.vertical.engine.rows import RowSets
from protocol import vfl_pb2

Rate = Callable[[float], float]  # progress in [0, 1) -> factor of the learning rate


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learned, and how.

    Attributes:
        sets: of every model, from which ``rows`` chooses and whose order is drawn.
        streams: of every model, for the order.
        labels: of all common rows, ``[common rows]`` or ``[N, common rows]``.
        only: beginnings of the names of parameters that learn; all without any.
        steps: so many and no more; None: all epochs.
    """

    sets: Sequence[RowSets]
    streams: Sequence[str]
    rows: "vfl_pb2.Rows"
    labels: Tensor
    epochs: int
    batch: int
    learning_rate: float
    only: tuple[str, ...] = ()
    optimiser: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    steps: int | None = None
    after: Callable[[int], None] = field(default=lambda _: None)  # told of each epoch


def learn(together: Together, models: Ensemble, lesson: Lesson) -> None:
    """Train the models in place, every one on its own rows in its own order."""
    chosen = models.beginning(*lesson.only)
    descent = optimiser(chosen, lesson)
    done = 0
    for epoch in range(1, lesson.epochs + 1):
        for rows in batches(lesson, epoch):
            if done == lesson.steps:
                return
            loss = losses(together, models, rows, lesson.labels).sum()
            descent.zero_grad()
            loss.backward(inputs=chosen)  # type: ignore[no-untyped-call]
            descent.step()
            done += 1
        lesson.after(epoch)


def optimiser(chosen: Sequence[Tensor], plan: Lesson | Training) -> torch.optim.Optimizer:
    """The optimiser of all models; element by element it is each model's own."""
    rate, decay = plan.learning_rate, plan.weight_decay
    if plan.optimiser == "adam":
        return torch.optim.Adam(chosen, rate, weight_decay=decay, fused=True)
    return torch.optim.SGD(chosen, rate, momentum=plan.momentum, weight_decay=decay)


def batches(lesson: Lesson, epoch: int) -> Iterator[Tensor]:
    """The batches of one epoch, ``[N, batch]`` row indices each.

    Raises:
        ValueError: the models have row sets of different sizes.
    """
    orders = [
        sets.shuffled(lesson.rows, stream, epoch)
        for sets, stream in zip(lesson.sets, lesson.streams, strict=True)
    ]
    if len({len(order) for order in orders}) > 1:
        raise ValueError("the models of a population learn from equally many rows")
    order = torch.from_numpy(np.stack(orders))
    return iter(torch.split(order, lesson.batch, dim=1))


def losses(together: Together, models: Ensemble, rows: Tensor, labels: Tensor) -> Tensor:
    """Mean cross entropy of every model on its own ``[N, batch]`` rows, ``[N]``."""
    logits = models(together.batch(rows))
    truth = labels[rows] if labels.dim() == 1 else labels.gather(1, rows)
    each = cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="none")
    return each.view(rows.shape).mean(dim=1)


def gradients(figures: Tensor, models: Ensemble) -> list[Tensor]:
    """Of every model's own figure, ``[N]``, by its own parameters."""
    return list(torch.autograd.grad(figures.sum(), models.beginning()))


def per_epoch(rows: int, batch: int) -> int:
    """Batches of one epoch."""
    return math.ceil(rows / batch)
