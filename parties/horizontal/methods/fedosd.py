"""FedOSD: forget along the steepest way that hurts nobody else, then recover without going back.

Letters of paper 001: ω = the model, ω⁰ = the original, g_u = the leaving clients' pseudo-gradient
under the unlearning loss, g_i = those of the clients that stay, d = the direction, η = the rate.
The variants are the paper's own ablations (Table 5).
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from parties.horizontal.engine.cohort import answers, gradients
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Aim
from parties.horizontal.methods.recover import recover_away
from unlearning.guarantee import Guarantee
from unlearning.horizontal.common_descent import common_descent
from unlearning.horizontal.steepest import (
    Projection,
    cosines,
    orthogonal_steepest_descent,
)

Variant: TypeAlias = Literal["full", "ascent", "no-orthogonal", "common-descent"]  # -, M1, M2, M3


@dataclass(frozen=True, slots=True)
class FedOsd:
    """Algorithm 1, both stages.

    Attributes:
        unlearn: rounds of the first stage; its lesson's rate is η.
        recover: rounds of the second.
        project: whose gradients are kept from leading back; ``none`` is the ablation M5.
    """

    unlearn: Course
    recover: Course
    project: Projection = "conditional"
    variant: Variant = "full"
    name: str = "fedosd"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.unlearn.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        model = scene.original
        for number in range(self.unlearn.rounds):
            model = self._step(scene, model, number)
        return recover_away(scene, model, self.recover, self.project)

    def _step(self, scene: Scene, model: Tensor, number: int) -> Tensor:
        lesson, slots = self.unlearn.at(number), {"model": model}
        # M1 climbs the plain cross entropy and has no end: that is what it shows.
        aim: Aim = "ascend" if self.variant == "ascent" else "unlearn"
        staying = dict(answers(scene.cohort, scene.staying, lesson, slots))
        leaving = dict(scene.cohort.each(scene.leaving, replace(lesson, aim=aim), slots))
        loss = sum(each.loss for each in staying.values()) / max(1, len(staying))
        if not leaving:
            scene.tell(Turn("unlearn", number, model, loss, skipped=True))
            return model
        others, own = gradients(staying, lesson), gradients(leaving, lesson)
        weights = torch.tensor([each.rows for each in leaving.values()], dtype=own.dtype)
        found = self._direction((weights / weights.sum()) @ own, others)
        if found is None:
            scene.tell(Turn("unlearn", number, model, loss, skipped=True))
            return model
        # FedOSD Alg 1, line 8: ω ← ω − η d.
        after = model - lesson.learning_rate * found
        against = cosines(others, found)
        conflicts, cosine = int((against < -1e-6).sum()), float(against.abs().max())
        scene.tell(Turn("unlearn", number, after, loss, conflicts, cosine))
        return after

    def _direction(self, own: Tensor, others: Tensor) -> Tensor | None:
        """What to subtract; None where nothing may be done to the others."""
        match self.variant:
            case "no-orthogonal":
                return own
            case "common-descent":
                return common_descent(torch.cat([others, own[None]]))
            case _:
                return orthogonal_steepest_descent(own, others).direction
