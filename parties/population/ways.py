"""Ways to unlearn, on a population: what ``parties.methods`` does between parties, N times at once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from configs.unlearning import Baseline, Fedora
from models.ensemble import Ensemble, square_norms
from parties.population.draw import Draw
from parties.population.fedora import Course, Unlearning
from parties.population.steps import Lesson, gradients, learn, losses
from parties.rows import RowSets
from parties.schedule import key, words
from protocol import vfl_pb2
from unlearning import thresholds
from unlearning.ascent import clip_factor, knows_nothing
from unlearning.calibration import entropy_factor
from unlearning.contribution import Contribution
from unlearning.objectives import entropy, forgetting_scores
from unlearning.relabelling import wrong_labels

Way: TypeAlias = Literal["fedora"] | Baseline


@dataclass(frozen=True, slots=True)
class Trained:
    """A population that learned, before anything is forgotten.

    Attributes:
        original: the models.
        early: the same after the first part of their training.
    """

    draw: Draw
    sets: Sequence[RowSets]
    streams: Sequence[str]
    original: Ensemble
    early: Ensemble

    def lesson(self, rows: "vfl_pb2.Rows", epochs: int, rate: float) -> Lesson:
        """As the federation's training goes, at another pace."""
        plan = self.draw.together.agreement.training
        return Lesson(
            self.sets, self.streams, rows, self.draw.together.labels, epochs, plan.batch, rate,
            kind=plan.optimiser, momentum=plan.momentum, weight_decay=plan.weight_decay,
        )  # fmt: skip


def train(draw: Draw, name: str, *, retrain: bool = False) -> Trained:
    """Train every run of ``draw`` from scratch, on all it learned or, to ``retrain``, on D_r alone."""
    agreement = draw.together.agreement
    plan, early = agreement.training, list[Ensemble]()
    streams = [f"{name}-{run}" for run in range(draw.runs)]
    models = draw.together.fresh(streams)
    kept = max(1, round(agreement.unlearning.fedora.early * plan.epochs))

    def after(epoch: int) -> None:
        if epoch == kept:
            early.append(models.copy())

    found = Trained(draw, [draw.rows(run) for run in range(draw.runs)], streams, models, models)
    rows = vfl_pb2.RETAIN if retrain else vfl_pb2.LEARN
    lesson = found.lesson(rows, plan.epochs, plan.learning_rate)
    learn(draw.together, models, replace(lesson, after=after))
    return replace(found, early=early[0])


def unlearned(trained: Trained, way: Way, plan: Fedora | None = None) -> Ensemble:
    """The models after they unlearned one way; ``plan`` stands in for the agreement's of FedORA."""
    agreed = trained.draw.together.agreement.unlearning
    match way:
        case "fedora":
            return fedora(trained, plan or agreed.fedora)
        case "fine-tune":
            tune = agreed.fine_tune
            return _lesson(trained, trained.lesson(vfl_pb2.RETAIN, tune.epochs, tune.learning_rate))
        case "relabel":
            relabel = agreed.relabel
            lesson = trained.lesson(vfl_pb2.LEARN, relabel.epochs, relabel.learning_rate)
            return _lesson(trained, replace(lesson, labels=_relabelled(trained)))
        case "top-only":
            top = agreed.top_only
            lesson = trained.lesson(vfl_pb2.RETAIN, top.epochs, top.learning_rate)
            return _lesson(trained, replace(lesson, only=("top.",)), bottom=0.0, top=1.0)
        case "shrink-perturb":
            shrink = agreed.shrink_perturb
            share = {"keep": 0.0, "shrink": shrink.share, "fresh": 1.0}[shrink.top]
            lesson = trained.lesson(vfl_pb2.RETAIN, shrink.epochs, shrink.learning_rate)
            return _lesson(trained, lesson, bottom=shrink.share, top=share)
        case "gradient-ascent":
            return _ascent(trained)
        case "ico-like":
            return _ico(trained)
        case "cvfu":
            raise NotImplementedError("cvfu runs between parties only")


def _lesson(trained: Trained, lesson: Lesson, *, bottom: float = 0.0, top: float = 0.0) -> Ensemble:
    """The original, moved towards fresh models where asked for, after a lesson."""
    models = trained.original.copy()
    _shrink(trained, models, bottom, top)
    learn(trained.draw.together, models, lesson)
    return models


def _shrink(trained: Trained, models: Ensemble, bottom: float, top: float) -> None:
    if bottom or top:
        fresh = trained.draw.together.fresh([f"{stream} fresh" for stream in trained.streams])
        models.blend(fresh, bottom, "bottoms.")
        models.blend(fresh, top, "top.")


def _relabelled(trained: Trained) -> Tensor:
    """Labels of all common rows with those of each model's D_u wrong, ``[N, common rows]``."""
    together = trained.draw.together
    classes, count = len(together.agreement.labels.classes), len(together.labels)
    labels = together.labels.repeat(len(trained.sets), 1)
    drawn = words(key(together.agreement.seed, "relabel"), count)
    for own, sets in zip(labels, trained.sets, strict=True):
        rows = sets.forgotten
        own[rows] = wrong_labels(own[rows], drawn[rows], classes)
    return labels


def _ascent(trained: Trained) -> Ensemble:
    """Climb the loss on D_u; a model stops at the loss of a uniform guess."""
    together, plan = trained.draw.together, trained.draw.together.agreement.unlearning.ascent
    models, classes = trained.original.copy(), len(together.agreement.labels.classes)
    for _ in range(plan.steps):
        loss, climb = _forgotten_loss(trained, models)
        norms = square_norms(climb)
        steps = [
            0.0 if knows_nothing(float(one), classes)
            else plan.learning_rate * clip_factor(float(norm), plan.clip)
            for one, norm in zip(loss, norms, strict=True)
        ]  # fmt: skip
        models.add(climb, torch.tensor(steps))
    return models


def _ico(trained: Trained) -> Ensemble:
    """Add the estimated contribution of D_u, then correct on a part of D_r."""
    together, plan = trained.draw.together, trained.draw.together.agreement.unlearning.ico_like
    models = trained.original.copy()
    _, gradient = _forgotten_loss(trained, models)
    share = len(trained.sets[0].forgotten) / len(trained.sets[0].learn)
    contribution = Contribution(step=plan.step, share=share, limit=plan.limit)
    norms = zip(square_norms(gradient), square_norms(models.beginning()), strict=True)
    models.add(gradient, torch.tensor([contribution.factor(float(g), float(t)) for g, t in norms]))
    epochs = math.ceil(plan.steps * together.agreement.training.batch / len(trained.sets[0].retain))
    lesson = trained.lesson(vfl_pb2.PORTION, 1 + math.ceil(epochs / plan.share), plan.learning_rate)
    learn(together, models, replace(lesson, kind="sgd", momentum=0.0, steps=plan.steps))
    return models


def _forgotten_loss(trained: Trained, models: Ensemble) -> tuple[Tensor, list[Tensor]]:
    """Mean cross entropy on each model's D_u, ``[N]``, and its gradient."""
    rows = torch.from_numpy(np.stack([sets.forgotten for sets in trained.sets]))
    together = trained.draw.together
    loss = losses(together, models, rows, together.labels)
    return loss.detach(), gradients(loss, models)


def fedora(trained: Trained, plan: Fedora) -> Ensemble:
    """FedORA by ``plan``, its start and its calibration included."""
    together = trained.draw.together
    models = (trained.early if plan.start == "early" else trained.original).copy()
    if plan.start == "fresh-top":
        _shrink(trained, models, 0.0, 1.0)
    elif plan.start == "shrink":
        top = {"keep": 0.0, "shrink": plan.shrink, "fresh": 1.0}[plan.shrink_top]
        _shrink(trained, models, plan.shrink, top)
    gammas = _thresholds(trained, plan)
    course = Course(together, trained.sets, trained.streams, plan)
    Unlearning(course, models, gammas).run()
    if plan.calibrate:
        _calibrate(trained, models)
    return models


def _thresholds(trained: Trained, plan: Fedora) -> list[float]:
    """γ of every model by the policy."""
    together = trained.draw.together
    classes, runs = len(together.agreement.labels.classes), len(trained.sets)
    match plan.policy:
        case "uniform":
            return [thresholds.uniform(classes, plan.weight)] * runs
        case "heldout":
            logits = together.logits(trained.original, together.rows.validation)
            truth = together.labels[together.rows.validation]
            return [
                thresholds.heldout(
                    thresholds.class_matched(
                        forgetting_scores(one, plan.weight), truth, together.labels[sets.forgotten]
                    ),
                    classes,
                    plan.weight,
                    plan.margin,
                )
                for one, sets in zip(logits, trained.sets, strict=True)
            ]
        case "proxy":
            return _proxies(trained, plan, classes)


def _proxies(trained: Trained, plan: Fedora, classes: int) -> list[float]:
    """γ from small reference models that never saw D_u."""
    together = trained.draw.together
    streams = [f"{stream} reference" for stream in trained.streams]
    models = together.fresh(streams)
    rate = plan.reference_learning_rate
    lesson = trained.lesson(vfl_pb2.SAMPLE, plan.reference_epochs, rate)
    learn(together, models, replace(lesson, batch=plan.reference_batch, streams=streams))
    pool = np.union1d(trained.draw.always, trained.draw.pool)
    logits, gammas = together.logits(models, pool), []
    for one, sets in zip(logits, trained.sets, strict=True):
        scores = forgetting_scores(one[np.isin(pool, sets.forgotten)], plan.weight)
        gammas.append(thresholds.proxy(scores, classes, plan.weight, plan.entropy_factor))
    return gammas


def _calibrate(trained: Trained, models: Ensemble) -> None:
    """Make every model as sure of held-out rows as its original was, in place."""
    together = trained.draw.together
    rows = together.rows.validation
    outside = _outside(trained)
    before = together.logits(trained.original, rows)[:, outside]
    after = together.logits(models, rows)[:, outside]
    factors = torch.tensor(
        [
            entropy_factor(one, float(entropy(other).double().mean()))
            for one, other in zip(after, before, strict=True)
        ]
    )
    last = max(int(name.split(".")[2]) for name in models.parameters if name.startswith("top."))
    models.scale(factors, f"top.perceptron.{last}.")


def _outside(trained: Trained) -> Tensor:
    """Which validation rows are of classes that lost no row; all where every class did."""
    together, draw = trained.draw.together, trained.draw
    gone = together.labels[np.union1d(draw.always, draw.pool)].unique()
    found = ~torch.isin(together.labels[together.rows.validation], gone)
    return found if found.any() else torch.ones_like(found)


Told = Callable[[str], None]
