"""FedORA on a population: every model has its own dual variable, step sizes and D_u.

Notation as in ``unlearning.primal_dual``. All models take the same number of steps. No model stops
early on validation rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count

import numpy as np
import torch
from torch import Tensor

from configs.unlearning import FedoraSettings
from models.ensemble import Ensemble, broadcast_per_model, squared_norm_per_model
from parties.experiments.population.pooled_data import PooledData
from parties.experiments.population.steps import (
    PopulationTask,
    batches_per_epoch,
    population_batches,
    population_gradients,
    population_losses,
    population_optimiser,
)
from parties.vertical.engine.rows import RowSets
from parties.vertical.methods.fedora import fedora_step_sizes
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.objectives import forgetting_scores
from unlearning.primal_dual import Dual, retain_steps


@dataclass(frozen=True, slots=True)
class FedoraContext:
    """Data and settings of one unlearning run, for all models."""

    pooled: PooledData
    sets: Sequence[RowSets]
    streams: Sequence[str]
    plan: FedoraSettings

    @property
    def batch(self) -> int:
        """B, the batch size."""
        return self.plan.batch or self.pooled.agreement.training.batch


class PopulationFedora:
    """FedORA on N models at once."""

    def __init__(self, context: FedoraContext, models: Ensemble, gammas: Sequence[float]) -> None:
        self._context, self._models, plan = context, models, context.plan
        cap = plan.max_multiplier if plan.score else 0.0
        self._highest = gammas
        if plan.policy == "present":
            classes = len(context.pooled.agreement.labels.classes)
            gammas = [thresholds.lowest_threshold(classes, plan.weight)] * len(gammas)
        self._duals = [Dual(threshold=gamma, maximum=cap) for gamma in gammas]
        training = context.pooled.agreement.training
        self._steps = [fedora_step_sizes(plan, training) for _ in gammas]
        self._anchor = [each.detach().clone() for each in models.with_prefix()]
        self._mark: list[Tensor] | None = None
        retained = len(context.sets[0].retain)
        share = plan.retain_share
        self._sub_steps = retain_steps(share, retained, context.batch) if share else 0
        self._per_epoch = batches_per_epoch(retained, context.batch)
        self._descent = None
        if plan.primal == "optimiser":
            self._descent = population_optimiser(models.with_prefix(), training)
        self._done = 0

    def run(self) -> None:
        """Run all iterations; the models change in place."""
        plan = self._context.plan
        order = _retained(self._context)
        for k in range(plan.iterations):
            held = self._hold(k)
            for _ in range(self._sub_steps):
                rows = next(order)
                loss = population_losses(
                    self._context.pooled, self._models, rows, self._context.pooled.labels
                )
                self._step(population_gradients(loss, self._models), held)
            if not self._sub_steps:
                self._step(None, held)
            if plan.policy == "present" and (k + 1) % plan.check_every == 0:
                present = held_out_thresholds(self._context, self._models)
                levels = map(min, self._highest, present)
                pairs = zip(self._duals, levels, strict=True)
                self._duals = [replace(dual, threshold=level) for dual, level in pairs]

    def _hold(self, k: int) -> list[Tensor]:
        """Return g_u of every model; the duals ascend and the step sizes adapt."""
        score, held = self._score(k)
        present = [each.detach().clone() for each in self._models.with_prefix()]
        moved = None
        if self._mark is not None:
            moved = squared_norm_per_model(
                [a - b for a, b in zip(present, self._mark, strict=True)]
            )
        self._mark = present
        norms = squared_norm_per_model(held)
        for n in range(len(self._duals)):
            steps = self._steps[n] if moved is None else self._steps[n].adapt(float(moved[n]))
            self._steps[n] = steps.with_gradient(float(norms[n]))
            self._duals[n] = self._duals[n].ascend(float(score[n]), self._steps[n].dual)
        return held

    def _score(self, k: int) -> tuple[Tensor, list[Tensor]]:
        """Return S_u of every model, ``[N]``, and its gradient, over D_u or a mini-batch of D_u."""
        context, plan = self._context, self._context.plan
        forgotten, size = len(context.sets[0].forgotten), plan.score_rows
        whole = size is None or size >= forgotten
        rows = torch.from_numpy(
            np.stack(
                [
                    sets.forgotten
                    if whole
                    else sets.shuffled(vfl_pb2.FORGOTTEN, stream, k + 1)[:size]
                    for sets, stream in zip(context.sets, context.streams, strict=True)
                ]
            )
        )
        total, held = torch.zeros(len(rows)), None
        for part in torch.split(rows, 1024, dim=1):
            logits = self._models(context.pooled.batch(part))
            each = forgetting_scores(logits.flatten(0, 1), plan.weight).view(part.shape)
            figure = each.sum(dim=1) / rows.shape[1]
            found = population_gradients(figure, self._models)
            held = found if held is None else [a + b for a, b in zip(held, found, strict=True)]
            total = total + figure.detach()
        return total, held or []

    @torch.no_grad()
    def _step(self, retain: Sequence[Tensor] | None, held: Sequence[Tensor]) -> None:
        """Take one primal sub-step of every model."""
        plan, factor = self._context.plan, 1.0
        if plan.anneal:
            total = plan.iterations * max(1, self._sub_steps)
            factor = plan.anneal.factor(self._done / total)
        self._done += 1
        duals = torch.tensor([dual.multiplier for dual in self._duals])
        rates = torch.tensor([steps.primal * factor for steps in self._steps])
        directions = []
        blocks = zip(self._models.with_prefix(), held, self._anchor, strict=True)
        for place, (theta, g_u, start) in enumerate(blocks):
            # FedORA Eq 27/34, with a separate dual variable for every model.
            direction = plan.proximal * (theta - start) - broadcast_per_model(duals, g_u) * g_u
            directions.append(direction if retain is None else direction + retain[place])
        if self._descent is None:
            self._models.add(directions, -rates)
            return
        for theta, direction in zip(self._models.with_prefix(), directions, strict=True):
            theta.grad = direction
        for group in self._descent.param_groups:
            group["lr"] = float(rates[0])
        self._descent.step()


def held_out_thresholds(context: FedoraContext, models: Ensemble) -> list[float]:
    """Return γ of every model, ``[N]``, from validation rows with the class proportions of D_u."""
    pooled, plan = context.pooled, context.plan
    rows, classes = pooled.rows.validation, len(pooled.agreement.labels.classes)
    gammas, truth = [], pooled.labels[rows]
    for logits, sets in zip(pooled.logits(models, rows), context.sets, strict=True):
        forgotten = pooled.labels[sets.forgotten]
        compared = min(len(forgotten), plan.score_rows or len(forgotten))
        scores = forgetting_scores(logits, plan.weight)
        level = thresholds.class_matched_level(scores, truth, forgotten, compared)
        gammas.append(thresholds.heldout_threshold(level, classes, plan.weight, plan.margin))
    return gammas


def _retained(context: FedoraContext) -> Iterator[Tensor]:
    """Yield batches of D_r, epoch after epoch."""
    labels, size = context.pooled.labels, context.batch
    rows = (context.sets, context.streams, vfl_pb2.RETAIN)
    task = PopulationTask(*rows, labels, epochs=0, batch=size, learning_rate=0.0)
    return chain.from_iterable(population_batches(task, epoch) for epoch in count(1))
