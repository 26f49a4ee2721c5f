"""Training steps of a population: N models are trained at once, each in its own row order."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from configs.agreement import TrainingSettings
from models.ensemble import Ensemble
from parties.experiments.population.pooled_data import PooledData
from parties.vertical.engine.rows import RowSets
from protocol import vfl_pb2


@dataclass(frozen=True, slots=True)
class PopulationTask:
    """Training task of N models: rows, labels, epochs and learning rate.

    Attributes:
        sets: row sets of every model; ``rows`` names the set on which the model is trained.
        streams: for each model, the name of the random stream that determines the order of rows.
        labels: labels of all common rows, ``[common rows]`` or ``[N, common rows]``.
        only: name prefixes of the parameters to train; empty: all parameters.
        steps: largest number of steps; None: all steps of all epochs.
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
    after: Callable[[int], None] = field(default=lambda _: None)  # called after each epoch


def train_population(pooled: PooledData, models: Ensemble, task: PopulationTask) -> None:
    """Train the models in place; each model has its own rows and its own row order."""
    chosen = models.with_prefix(*task.only)
    descent = population_optimiser(chosen, task)
    done = 0
    for epoch in range(1, task.epochs + 1):
        for rows in population_batches(task, epoch):
            if done == task.steps:
                return
            loss = population_losses(pooled, models, rows, task.labels).sum()
            descent.zero_grad()
            loss.backward(inputs=chosen)  # type: ignore[no-untyped-call]
            descent.step()
            done += 1
        task.after(epoch)


def population_optimiser(
    chosen: Sequence[Tensor], plan: PopulationTask | TrainingSettings
) -> torch.optim.Optimizer:
    """Return one optimiser for all models; the optimiser updates each model independently.

    ``chosen`` has the stacked parameters of all models, ``[N, ...]`` each.
    """
    rate, decay = plan.learning_rate, plan.weight_decay
    if plan.optimiser == "adam":
        return torch.optim.Adam(chosen, rate, weight_decay=decay, fused=True)
    return torch.optim.SGD(chosen, rate, momentum=plan.momentum, weight_decay=decay)


def population_batches(task: PopulationTask, epoch: int) -> Iterator[Tensor]:
    """Yield the batches of one epoch, ``[N, batch]`` row indices each.

    Raises:
        ValueError: the models have row sets of different sizes.
    """
    orders = [
        sets.shuffled(task.rows, stream, epoch)
        for sets, stream in zip(task.sets, task.streams, strict=True)
    ]
    if len({len(order) for order in orders}) > 1:
        raise ValueError(
            "the models have different numbers of training rows; all models of a population need "
            "the same number of rows"
        )
    order = torch.from_numpy(np.stack(orders))
    return iter(torch.split(order, task.batch, dim=1))


def population_losses(pooled: PooledData, models: Ensemble, rows: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy of every model on its own ``[N, batch]`` rows, ``[N]``."""
    logits = models(pooled.batch(rows))
    truth = labels[rows] if labels.dim() == 1 else labels.gather(1, rows)
    each = cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="none")
    return each.view(rows.shape).mean(dim=1)


def population_gradients(figures: Tensor, models: Ensemble) -> list[Tensor]:
    """Return each model's gradient of its own entry in ``figures``, ``[N]``: ``[N, ...]`` each."""
    return list(torch.autograd.grad(figures.sum(), models.with_prefix()))


def batches_per_epoch(rows: int, batch: int) -> int:
    """Return the number of batches of one epoch."""
    return math.ceil(rows / batch)
