"""Distillation's student: where it begins, and what it is told of the client that leaves."""

from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from parties.horizontal.engine.unlearning_context import Scene
from parties.horizontal.evaluation.whole_model import whole
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.local.personal import last_linear, mask

Begin: TypeAlias = Literal["random", "warm", "head-reset"]
PROMPTS = ("generator.", "base", "descriptor")  # of prompted networks; they stay as they are


def student(begin: Begin, scene: Scene, network: nn.Module, stream: str) -> Tensor:
    """Random weights but for the prompts, the original, or that with a fresh head."""
    match begin:
        case "warm":
            return scene.original
        case "head-reset":
            fresh = mask(network, (last_linear(network),))
        case "random":
            fresh = ~mask(network, PROMPTS)
    return torch.where(fresh, scene.fresh(stream), scene.original)


def of_the_leaving(scene: Scene, lesson: Lesson) -> Tensor:
    """The original with what the leaving client has of its own, handed over to be forgotten."""
    return whole(scene.cohort, scene.leaving, lesson, scene.original)


def serving(scene: Scene, peer: str | None) -> Scene:
    """The scene of one client that stays, whose model is unlearned; None: of all who stay."""
    kept = [each for each in scene.staying if peer in (None, each.client)]
    return replace(scene, staying=kept)
