"""Ways to unlearn, on a population: what ``parties.vertical.methods`` does between parties, N at once."""

import math
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from configs.unlearning import Baseline, Fedora, FineTune, Relabel, ShrinkPerturb, TopOnly
from models.ensemble import Ensemble, square_norms
from parties.common.errors import PolicyError
from parties.common.shared_randomness import key, words
from parties.experiments.population.cvfu import cvfu
from parties.experiments.population.fedora import Course, Unlearning, held_out_levels
from parties.experiments.population.steps import learn, per_epoch
from parties.experiments.population.trained import Trained, forgotten_loss
from parties.vertical.methods.fedora import START
from parties.vertical.methods.method import ORIGINAL
from parties.vertical.methods.shrink_perturb import share_of_top
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.ascent import clip_factor, knows_nothing
from unlearning.calibration import calibration_factor
from unlearning.contribution import Contribution
from unlearning.objectives import forgetting_scores
from unlearning.relabelling import wrong_labels

Way: TypeAlias = Literal["fedora"] | Baseline


def unlearned(trained: Trained, way: Way, plan: Fedora | None = None) -> Ensemble:
    """The models after they unlearned one way; ``plan`` stands in for the agreement's of FedORA."""
    match way:
        case "fedora":
            found = fedora(trained, plan or trained.together.agreement.unlearning.fedora)
        case "gradient-ascent":
            found = _ascent(trained)
        case "ico-like":
            found = _ico(trained)
        case "cvfu":
            found = cvfu(trained)
        case _:
            found = _taught(trained, way)
    return found


def _taught(trained: Trained, way: Baseline) -> Ensemble:
    """The ways that are a lesson on some rows, after a change of the parameters."""
    agreed, models = trained.together.agreement.unlearning, trained.original.copy()
    bottom = top = 0.0
    only: tuple[str, ...] = ()
    rows, labels = vfl_pb2.RETAIN, trained.together.labels
    plan: FineTune | Relabel | TopOnly | ShrinkPerturb = agreed.fine_tune
    if way == "relabel":
        plan, rows, labels = agreed.relabel, vfl_pb2.LEARN, _relabelled(trained)
    elif way == "top-only":
        plan, top, only = agreed.top_only, 1.0, ("top.",)
    elif way == "shrink-perturb":
        plan = agreed.shrink_perturb
        bottom, top = plan.share, share_of_top(plan.share, plan.top)
    _shrink(trained, way, models, (bottom, top))
    lesson = trained.lesson(way, rows, (plan.epochs, plan.learning_rate))
    learn(trained.together, models, replace(lesson, labels=labels, only=only))
    return models


def _shrink(trained: Trained, purpose: str, models: Ensemble, shares: tuple[float, float]) -> None:
    """Move bottoms and top towards fresh ones by these shares."""
    if any(shares):
        fresh = trained.together.fresh(trained.streams(purpose))
        models.blend(fresh, shares[0], "bottoms.")
        models.blend(fresh, shares[1], "top.")


def _relabelled(trained: Trained) -> Tensor:
    """Labels of all common rows with those of each model's D_u wrong, ``[N, common rows]``."""
    together = trained.together
    classes, count = len(together.agreement.labels.classes), len(together.labels)
    labels = together.labels.repeat(len(trained.sets), 1)
    drawn = words(key(together.agreement.seed, "relabel"), count)
    for own, sets in zip(labels, trained.sets, strict=True):
        rows = sets.forgotten
        own[rows] = wrong_labels(own[rows], drawn[rows], classes)
    return labels


def _ascent(trained: Trained) -> Ensemble:
    """Climb the loss on D_u; a model stops at the loss of a uniform guess."""
    plan, models = trained.together.agreement.unlearning.ascent, trained.original.copy()
    classes = len(trained.together.agreement.labels.classes)
    for _ in range(plan.steps):
        loss, climb = forgotten_loss(trained, models)
        steps = [
            plan.learning_rate * clip_factor(float(norm), plan.clip)
            * (not knows_nothing(float(one), classes))
            for one, norm in zip(loss, square_norms(climb), strict=True)
        ]  # fmt: skip
        models.add(climb, torch.tensor(steps, dtype=torch.float64))
    return models


def _ico(trained: Trained) -> Ensemble:
    """Add the estimated contribution of D_u, then correct on a part of D_r."""
    together, plan = trained.together, trained.together.agreement.unlearning.ico_like
    models, sets = trained.original.copy(), trained.sets[0]
    _, gradient = forgotten_loss(trained, models)
    share = len(sets.forgotten) / len(sets.learn)
    contribution = Contribution(step=plan.step, share=share, limit=plan.limit)
    norms = zip(square_norms(gradient), square_norms(models.beginning()), strict=True)
    factors = [contribution.factor(float(g), float(theta)) for g, theta in norms]
    models.add(gradient, torch.tensor(factors, dtype=torch.float64))
    steps = per_epoch(len(sets.of(vfl_pb2.PORTION)), together.agreement.training.batch)
    epochs = math.ceil(plan.steps / steps)
    lesson = trained.lesson("ico-like", vfl_pb2.PORTION, (epochs, plan.learning_rate))
    lesson = replace(lesson, optimiser="sgd", momentum=0.0, weight_decay=0.0, steps=plan.steps)
    learn(together, models, lesson)
    return models


def fedora(trained: Trained, plan: Fedora) -> Ensemble:
    """FedORA by ``plan``, its start and its calibration included.

    Raises:
        PolicyError: a population cannot run this form.
    """
    if plan.dual == "literal" or plan.extrapolate or (plan.adaptive and plan.primal == "optimiser"):
        raise PolicyError(
            "a population runs FedORA with a scalar dual, without extrapolation, and with adaptive "
            "steps only where primal = 'plain'"
        )
    models = (trained.early if plan.start == "early" else trained.original).copy()
    if plan.start == "fresh-top":
        _shrink(trained, START, models, (0.0, 1.0))
    elif plan.start == "shrink":
        top = share_of_top(plan.shrink, plan.shrink_top)
        _shrink(trained, START, models, (plan.shrink, top))
    course = Course(trained.together, trained.sets, trained.streams(ORIGINAL), plan)
    Unlearning(course, models, _thresholds(trained, plan)).run()
    if plan.calibrate:
        _calibrate(trained, models, plan.margin)
    return models


def _thresholds(trained: Trained, plan: Fedora) -> list[float]:
    """γ of every model by the policy."""
    together = trained.together
    classes = len(together.agreement.labels.classes)
    if plan.policy == "uniform":
        return [thresholds.uniform(classes, plan.weight)] * len(trained.sets)
    if plan.policy == "proxy":
        return _proxies(trained, plan, classes)
    return held_out_levels(Course(together, trained.sets, (), plan), trained.original)


def _proxies(trained: Trained, plan: Fedora, classes: int) -> list[float]:
    """γ from small reference models that never saw D_u."""
    together = trained.together
    models = together.fresh(trained.streams("reference"))
    pace = (plan.reference_epochs, plan.reference_learning_rate)
    learn(together, models, trained.lesson("reference", vfl_pb2.SAMPLE, pace, plan.reference_batch))
    pool = np.unique(np.concatenate([sets.forgotten for sets in trained.sets]))
    gammas = []
    for logits, sets in zip(together.logits(models, pool), trained.sets, strict=True):
        scores = forgetting_scores(logits[np.isin(pool, sets.forgotten)], plan.weight)
        gammas.append(thresholds.proxy(scores, classes, plan.weight, plan.entropy_factor))
    return gammas


def _calibrate(trained: Trained, models: Ensemble, margin: float) -> None:
    """Make every model as sure of held-out rows as its original was, in place."""
    together, rows = trained.together, trained.together.rows.validation
    pairs = zip(together.logits(models, rows), together.logits(trained.original, rows), strict=True)
    factors = []
    for (present, original), sets in zip(pairs, trained.sets, strict=True):
        gone = torch.unique(together.labels[sets.forgotten])
        chosen = ~torch.isin(together.labels[rows], gone)
        if not chosen.any():
            return
        factors.append(calibration_factor(present[chosen], original[chosen], margin))
    last = max(int(name.split(".")[2]) for name in models.parameters if name.startswith("top."))
    models.scale(torch.tensor(factors, dtype=torch.float64), f"top.perceptron.{last}.")
