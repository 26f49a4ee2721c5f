"""A trained population: the original models, and the early checkpoints that methods start from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from models.ensemble import Ensemble
from parties.experiments.population.forget_sets import ForgetSet
from parties.experiments.population.pooled_data import PooledData
from parties.experiments.population.steps import (
    PopulationTask,
    population_gradients,
    population_losses,
    train_population,
)
from parties.vertical.engine.rows import RowSets
from protocol import vfl_pb2


@dataclass(frozen=True, slots=True)
class TrainedPopulation:
    """A population after training, before unlearning.

    Attributes:
        sets: row sets, such as the forgotten rows, of every run.
        names: name of every run; the names of random streams contain this name.
        original: the trained models.
        early: the models after the first epochs of training, for methods that start from an early
            checkpoint.
    """

    pooled: PooledData
    sets: Sequence[RowSets]
    names: Sequence[str]
    original: Ensemble
    early: Ensemble

    def streams(self, purpose: str) -> list[str]:
        """Return the name of each run's random stream: ``purpose`` and the name of the run."""
        return [f"{purpose} {name}".strip() for name in self.names]

    def task(
        self, purpose: str, rows: "vfl_pb2.Rows", pace: tuple[int, float], batch: int | None = None
    ) -> PopulationTask:
        """Return the federation's training task; ``pace`` has epochs and learning rate."""
        plan = self.pooled.agreement.training
        return PopulationTask(
            sets=self.sets,
            streams=self.streams(purpose),
            rows=rows,
            labels=self.pooled.labels,
            epochs=pace[0],
            batch=batch or plan.batch,
            learning_rate=pace[1],
            optimiser=plan.optimiser,
            momentum=plan.momentum,
            weight_decay=plan.weight_decay,
        )


def train_originals(draw: ForgetSet, purpose: str, rows: "vfl_pb2.Rows") -> TrainedPopulation:
    """Train every run from scratch on ``rows``: TRAIN_ROWS, or RETAIN for Retrain models."""
    agreement, names = draw.pooled.agreement, [str(run) for run in range(draw.runs)]
    plan, early = agreement.training, list[Ensemble]()
    models = draw.pooled.fresh([f"{purpose} {name}" for name in names])
    kept = max(1, round(agreement.unlearning.fedora.rewind * plan.epochs))

    def after(epoch: int) -> None:
        if epoch == kept:
            early.append(models.copy())

    sets = [draw.rows(run) for run in range(draw.runs)]
    found = TrainedPopulation(draw.pooled, sets, names, models, models)
    task = found.task(purpose, rows, (plan.epochs, plan.learning_rate))
    train_population(draw.pooled, models, replace(task, after=after))
    return replace(found, early=early[0])


def mean_forgotten_loss(
    trained: TrainedPopulation, models: Ensemble
) -> tuple[Tensor, list[Tensor]]:
    """Return the mean cross entropy on each model's D_u, ``[N]``, and its gradient ``[N, ...]``."""
    rows = torch.from_numpy(np.stack([sets.forgotten for sets in trained.sets]))
    loss = population_losses(trained.pooled, models, rows, trained.pooled.labels)
    return loss.detach(), population_gradients(loss, models)
