"""Unlearning methods on a population of models: the same steps as ``parties.vertical.methods``."""

import math
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from configs.unlearning import (
    Baseline,
    FedoraSettings,
    FineTuneSettings,
    RelabelSettings,
    ShrinkPerturbSettings,
    TopOnlySettings,
)
from models.ensemble import Ensemble, squared_norm_per_model
from parties.common.errors import PolicyError
from parties.common.shared_randomness import derive_key, random_words
from parties.experiments.population.cvfu import population_cvfu
from parties.experiments.population.fedora import (
    FedoraContext,
    PopulationFedora,
    held_out_thresholds,
)
from parties.experiments.population.steps import batches_per_epoch, train_population
from parties.experiments.population.trained import TrainedPopulation, mean_forgotten_loss
from parties.vertical.engine.local_model import ORIGINAL
from parties.vertical.engine.split_model import ShrinkShares
from parties.vertical.methods.fedora import START
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.baselines import Contribution, clip_factor, reaches_uniform_loss, wrong_labels
from unlearning.calibration import calibration_factor
from unlearning.objectives import forgetting_scores

Way: TypeAlias = Literal["fedora"] | Baseline


def run_population_method(
    trained: TrainedPopulation, way: Way, plan: FedoraSettings | None = None
) -> Ensemble:
    """Apply the unlearning method ``way`` and return the resulting models.

    ``plan`` replaces the agreement's FedORA settings.
    """
    match way:
        case "fedora":
            found = population_fedora(trained, plan or trained.pooled.agreement.unlearning.fedora)
        case "gradient-ascent":
            found = _ascent(trained)
        case "ico-like":
            found = _ico(trained)
        case "cvfu":
            found = population_cvfu(trained)
        case _:
            found = _train_method(trained, way)
    return found


def _train_method(trained: TrainedPopulation, way: Baseline) -> Ensemble:
    """Run the methods that are training on some rows after a change of the parameters."""
    agreed, models = trained.pooled.agreement.unlearning, trained.original.copy()
    bottom = top = 0.0
    only: tuple[str, ...] = ()
    rows, labels = vfl_pb2.RETAIN, trained.pooled.labels
    plan: FineTuneSettings | RelabelSettings | TopOnlySettings | ShrinkPerturbSettings = (
        agreed.fine_tune
    )
    if way == "relabel":
        plan, rows, labels = agreed.relabel, vfl_pb2.TRAIN_ROWS, _relabelled(trained)
    elif way == "top-only":
        plan, top, only = agreed.top_only, 1.0, ("top.",)
    elif way == "shrink-perturb":
        plan = agreed.shrink_perturb
        bottom, top = plan.share, ShrinkShares.agreed(plan.share, plan.top).top
    _shrink(trained, way, models, (bottom, top))
    task = trained.task(way, rows, (plan.epochs, plan.learning_rate))
    train_population(trained.pooled, models, replace(task, labels=labels, only=only))
    return models


def _shrink(
    trained: TrainedPopulation, purpose: str, models: Ensemble, shares: tuple[float, float]
) -> None:
    """Move bottom and top models towards fresh ones by these shares."""
    if any(shares):
        fresh = trained.pooled.fresh(trained.streams(purpose))
        models.blend(fresh, shares[0], "bottoms.")
        models.blend(fresh, shares[1], "top.")


def _relabelled(trained: TrainedPopulation) -> Tensor:
    """Return labels of all common rows, wrong on each model's D_u, ``[N, common rows]``."""
    pooled = trained.pooled
    classes, count = len(pooled.agreement.labels.classes), len(pooled.labels)
    labels = pooled.labels.repeat(len(trained.sets), 1)
    drawn = random_words(derive_key(pooled.agreement.seed, "relabel"), count)
    for own, sets in zip(labels, trained.sets, strict=True):
        rows = sets.forgotten
        own[rows] = wrong_labels(own[rows], drawn[rows], classes)
    return labels


def _ascent(trained: TrainedPopulation) -> Ensemble:
    """Ascend the loss on D_u; a model stops at the loss of a uniform guess."""
    plan, models = trained.pooled.agreement.unlearning.ascent, trained.original.copy()
    classes = len(trained.pooled.agreement.labels.classes)
    for _ in range(plan.steps):
        loss, gradients = mean_forgotten_loss(trained, models)
        steps = [
            plan.learning_rate * clip_factor(float(norm), plan.clip)
            * (not reaches_uniform_loss(float(one), classes))
            for one, norm in zip(loss, squared_norm_per_model(gradients), strict=True)
        ]  # fmt: skip
        models.add(gradients, torch.tensor(steps, dtype=torch.float64))
    return models


def _ico(trained: TrainedPopulation) -> Ensemble:
    """Add the estimated contribution of D_u, then correct on a part of D_r."""
    pooled, plan = trained.pooled, trained.pooled.agreement.unlearning.ico_like
    models, sets = trained.original.copy(), trained.sets[0]
    _, gradient = mean_forgotten_loss(trained, models)
    share = len(sets.forgotten) / len(sets.train)
    contribution = Contribution(step=plan.step, share=share, limit=plan.limit)
    norms = zip(
        squared_norm_per_model(gradient), squared_norm_per_model(models.with_prefix()), strict=True
    )
    factors = [contribution.factor(float(g), float(theta)) for g, theta in norms]
    models.add(gradient, torch.tensor(factors, dtype=torch.float64))
    steps = batches_per_epoch(
        len(sets.select(vfl_pb2.CORRECTION_SAMPLE)), pooled.agreement.training.batch
    )
    epochs = math.ceil(plan.steps / steps)
    task = trained.task("ico-like", vfl_pb2.CORRECTION_SAMPLE, (epochs, plan.learning_rate))
    task = replace(task, optimiser="sgd", momentum=0.0, weight_decay=0.0, steps=plan.steps)
    train_population(pooled, models, task)
    return models


def population_fedora(trained: TrainedPopulation, plan: FedoraSettings) -> Ensemble:
    """Return the models after FedORA with the settings ``plan``.

    The start and the calibration in ``plan`` are applied, too.


    Raises:
        PolicyError: a population does not support these settings.
    """
    if plan.dual == "literal" or plan.extrapolate or (plan.adaptive and plan.primal == "optimiser"):
        raise PolicyError(
            "a population does not support these settings of FedORA",
            "set dual = 'scalar' and extrapolate = false; with primal = 'optimiser', also set "
            "adaptive = false",
        )
    models = (trained.early if plan.start == "rewind" else trained.original).copy()
    if plan.start == "fresh-top":
        _shrink(trained, START, models, (0.0, 1.0))
    elif plan.start == "shrink":
        top = ShrinkShares.agreed(plan.shrink, plan.shrink_top).top
        _shrink(trained, START, models, (plan.shrink, top))
    context = FedoraContext(trained.pooled, trained.sets, trained.streams(ORIGINAL), plan)
    PopulationFedora(context, models, _thresholds(trained, plan)).run()
    if plan.calibrate:
        _calibrate(trained, models, plan.margin)
    return models


def _thresholds(trained: TrainedPopulation, plan: FedoraSettings) -> list[float]:
    """Return γ of every model by the threshold policy."""
    pooled = trained.pooled
    classes = len(pooled.agreement.labels.classes)
    if plan.policy == "uniform":
        return [thresholds.uniform_threshold(classes, plan.weight)] * len(trained.sets)
    if plan.policy == "proxy":
        return _proxies(trained, plan, classes)
    return held_out_thresholds(FedoraContext(pooled, trained.sets, (), plan), trained.original)


def _proxies(trained: TrainedPopulation, plan: FedoraSettings, classes: int) -> list[float]:
    """Return γ from small reference models that never saw D_u."""
    pooled = trained.pooled
    models = pooled.fresh(trained.streams("reference"))
    pace = (plan.reference_epochs, plan.reference_learning_rate)
    train_population(
        pooled,
        models,
        trained.task("reference", vfl_pb2.REFERENCE_SAMPLE, pace, plan.reference_batch),
    )
    pool = np.unique(np.concatenate([sets.forgotten for sets in trained.sets]))
    gammas = []
    for logits, sets in zip(pooled.logits(models, pool), trained.sets, strict=True):
        scores = forgetting_scores(logits[np.isin(pool, sets.forgotten)], plan.weight)
        gammas.append(thresholds.proxy_threshold(scores, classes, plan.weight, plan.entropy_factor))
    return gammas


def _calibrate(trained: TrainedPopulation, models: Ensemble, margin: float) -> None:
    """Give every model the confidence of its original on held-out rows; models change in place."""
    pooled, rows = trained.pooled, trained.pooled.rows.validation
    pairs = zip(pooled.logits(models, rows), pooled.logits(trained.original, rows), strict=True)
    factors = []
    for (present, original), sets in zip(pairs, trained.sets, strict=True):
        gone = torch.unique(pooled.labels[sets.forgotten])
        chosen = ~torch.isin(pooled.labels[rows], gone)
        if not chosen.any():
            return
        factors.append(calibration_factor(present[chosen], original[chosen], margin))
    last = max(int(name.split(".")[2]) for name in models.parameters if name.startswith("top."))
    models.scale(torch.tensor(factors, dtype=torch.float64), f"top.perceptron.{last}.")
