"""CVFU on a population of models; all parties are online.

Each model has its own cached sum of the parties' votes, which are logits.

Notation as in ``parties.vertical.methods.cvfu``.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from models.ensemble import Ensemble
from parties.experiments.population.steps import population_gradients
from parties.experiments.population.trained import TrainedPopulation, mean_forgotten_loss
from unlearning.cvfu import EarlyStopping


def population_cvfu(trained: TrainedPopulation) -> Ensemble:
    """Return each model in its state after the last epoch that improved this model."""
    plan, models = trained.pooled.agreement.unlearning.cvfu, trained.original.copy()
    kept, moving = trained.original.copy(), torch.ones(len(trained.sets), dtype=torch.bool)
    watchers = [EarlyStopping(patience=plan.patience) for _ in trained.sets]
    _, held = mean_forgotten_loss(trained, models)
    for number in range(1, plan.epochs + 1):
        if not moving.any():
            break
        loss, norm = _epoch(trained, models, number, held)
        for n in range(len(watchers)):
            if moving[n]:
                watchers[n] = watchers[n].after_epoch(float(loss[n]), float(norm[n]))
                if watchers[n].progressed:
                    kept.copy_model(models, n)
                moving[n] = not watchers[n].should_stop
    return kept


def _epoch(
    trained: TrainedPopulation, models: Ensemble, number: int, held: list[Tensor]
) -> tuple[Tensor, Tensor]:
    """Pass once over D_r at a fixed Ĥ; return its loss and gradient norm, ``[N]`` each."""
    pooled, plan = trained.pooled, trained.pooled.agreement.unlearning.cvfu
    rows = torch.from_numpy(np.stack([sets.retain for sets in trained.sets]))
    with torch.no_grad():
        parts = [models(pooled.batch(part)) for part in torch.split(rows, 1024, dim=1)]
    confidence, count = torch.cat(parts, dim=1), rows.shape[1]
    rate, loss, square = plan.learning_rate / math.sqrt(number), 0.0, 0.0
    batches = (torch.split(each, plan.batch, dim=1) for each in (rows, confidence))
    for index, (part, fixed) in enumerate(zip(*batches, strict=True)):
        fresh, truth = models(pooled.batch(part)), pooled.labels[part]
        logits = fixed + (fresh - fresh.detach())
        each = cross_entropy(logits.flatten(0, 1), truth.flatten(), reduction="none")
        mean = each.view(part.shape).mean(dim=1)
        loss = loss + mean.detach() * part.shape[1] / count
        residual = fixed.softmax(dim=2) - one_hot(truth, fixed.shape[2])
        square = square + residual.square().sum(dim=(1, 2)) / count**2
        descent = population_gradients(mean, models)
        if number == 1 and index == 0:
            descent = [g - plan.ascent * u for g, u in zip(descent, held, strict=True)]
        models.add(descent, torch.full((len(models),), -rate, dtype=torch.float64))
    return torch.as_tensor(loss), torch.as_tensor(square).sqrt()
