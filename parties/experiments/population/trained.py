"""A population of originals: trained, with the copies that a way to unlearn may begin at."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from models.ensemble import Ensemble
from parties.experiments.population.forget_sets import Draw
from parties.experiments.population.pooled_data import Together
from parties.experiments.population.steps import Lesson, gradients, learn, losses
from parties.vertical.engine.rows import RowSets
from protocol import vfl_pb2


@dataclass(frozen=True, slots=True)
class Trained:
    """A population that learned, before anything is forgotten.

    Attributes:
        sets: the row sets of every run.
        names: of every run; they set its randomness apart from that of the others.
        original: the models.
        early: the same after the first part of their training.
    """

    together: Together
    sets: Sequence[RowSets]
    names: Sequence[str]
    original: Ensemble
    early: Ensemble

    def streams(self, purpose: str) -> list[str]:
        """The stream that each run's federation would name after ``purpose``."""
        return [f"{purpose} {name}".strip() for name in self.names]

    def lesson(
        self, purpose: str, rows: "vfl_pb2.Rows", pace: tuple[int, float], batch: int | None = None
    ) -> Lesson:
        """As the federation's training goes, at a ``pace`` of epochs and learning rate."""
        plan = self.together.agreement.training
        return Lesson(
            sets=self.sets,
            streams=self.streams(purpose),
            rows=rows,
            labels=self.together.labels,
            epochs=pace[0],
            batch=batch or plan.batch,
            learning_rate=pace[1],
            optimiser=plan.optimiser,
            momentum=plan.momentum,
            weight_decay=plan.weight_decay,
        )


def train(draw: Draw, purpose: str, rows: "vfl_pb2.Rows") -> Trained:
    """Train every run of ``draw`` from scratch on ``rows``: LEARN, or RETAIN for Retrains."""
    agreement, names = draw.together.agreement, [str(run) for run in range(draw.runs)]
    plan, early = agreement.training, list[Ensemble]()
    models = draw.together.fresh([f"{purpose} {name}" for name in names])
    kept = max(1, round(agreement.unlearning.fedora.early * plan.epochs))

    def after(epoch: int) -> None:
        if epoch == kept:
            early.append(models.copy())

    sets = [draw.rows(run) for run in range(draw.runs)]
    found = Trained(draw.together, sets, names, models, models)
    lesson = found.lesson(purpose, rows, (plan.epochs, plan.learning_rate))
    learn(draw.together, models, replace(lesson, after=after))
    return replace(found, early=early[0])


def forgotten_loss(trained: Trained, models: Ensemble) -> tuple[Tensor, list[Tensor]]:
    """Mean cross entropy on each model's D_u, ``[N]``, and its gradient."""
    rows = torch.from_numpy(np.stack([sets.forgotten for sets in trained.sets]))
    loss = losses(trained.together, models, rows, trained.together.labels)
    return loss.detach(), gradients(loss, models)
