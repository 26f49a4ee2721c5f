"""Post-training: those who stay train on, so that the model gets back what unlearning cost it."""

import torch
from torch import Tensor

from parties.horizontal.engine.cohort import answers
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Slots
from unlearning.horizontal.steepest import Projection, not_back

ALONE: Slots = {}


def recover(scene: Scene, model: Tensor, course: Course, beside: Slots = ALONE) -> Tensor:
    """Plain rounds of those who stay; ``beside`` are further vectors that the lesson needs."""
    rule = course.rule
    for number in range(course.rounds):
        chosen = course.chosen(scene.staying, number)
        mean = scene.cohort.mean(chosen, course.at(number), {"model": model, **beside})
        model, rule = rule.step(model, mean.change.to(model.dtype))
        scene.tell(Turn("recover", number, model, mean.loss))
    return model


def recover_away(scene: Scene, model: Tensor, course: Course, project: Projection) -> Tensor:
    """FedOSD's rounds: no client's update leads back to the original, and all weigh the same."""
    for number in range(course.rounds):
        lesson, away = course.at(number), model - scene.original
        total, loss, count = torch.zeros_like(model), 0.0, 0
        for _, found in answers(scene.cohort, scene.staying, lesson, {"model": model}):
            total += not_back(found.change / -lesson.learning_rate, away, project)
            loss, count = loss + found.loss, count + 1
        model = model - lesson.learning_rate * total / count
        scene.tell(Turn("recover", number, model, loss / count))
    return model
