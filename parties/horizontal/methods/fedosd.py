"""FedOSD: unlearning steps orthogonal to the remaining clients' gradients, then recovery.

Notation of paper 001: ω = the model; ω⁰ = the original model; g_u = the leaving clients'
pseudo-gradient of the unlearning loss; g_i = the pseudo-gradients of the remaining clients; d = the
direction of the step; η = the learning rate. The variants are the ablations of the paper (Table 5).
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from parties.horizontal.engine.cohort import pseudo_gradients, quorum_updates
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import Aim
from parties.horizontal.methods.recover import recover_fedosd
from unlearning.guarantee import Guarantee
from unlearning.horizontal.fedosd import (
    Projection,
    client_cosines,
    common_descent,
    orthogonal_steepest_descent,
)

# The algorithm, and the ablations M1, M2 and M3 of the paper.
Variant: TypeAlias = Literal["full", "ascent", "no-orthogonal", "common-descent"]


@dataclass(frozen=True, slots=True)
class FedOsd:
    """Algorithm 1 of the FedOSD paper: unlearning, then recovery.

    Attributes:
        unlearn: rounds of unlearning; the learning rate of the local task is η.
        recover: rounds of recovery.
        project: rule that selects the gradients to project in recovery. The projection removes the
            part of a gradient that moves the model back to ω⁰. With ``none`` (ablation M5), no
            gradient is projected.
        variant: the full algorithm, or one of the ablations.
    """

    unlearn: RoundPlan
    recover: RoundPlan
    project: Projection = "conditional"
    variant: Variant = "full"
    name: str = "fedosd"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = True

    @property
    def rounds(self) -> int:
        """Largest number of rounds that the method records."""
        return self.unlearn.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        model = context.original
        for number in range(self.unlearn.rounds):
            model = self._step(context, model, number)
        return recover_fedosd(context, model, self.recover, self.project)

    def _step(self, context: UnlearningContext, model: Tensor, number: int) -> Tensor:
        task, slots = self.unlearn.task_at(number), {"model": model}
        # M1 maximises the plain cross entropy, which has no bound: the ablation shows its effect.
        aim: Aim = "elastic" if self.variant == "ascent" else "unlearning-loss"
        remaining = dict(quorum_updates(context.cohort, context.remaining, task, slots))
        leaving = dict(context.cohort.updates(context.leaving, replace(task, aim=aim), slots))
        loss = sum(each.loss for each in remaining.values()) / max(1, len(remaining))
        if not leaving:
            context.record_round(RoundRecord("unlearn", number, model, loss, skipped=True))
            return model
        others, own = pseudo_gradients(remaining, task), pseudo_gradients(leaving, task)
        weights = torch.tensor([each.rows for each in leaving.values()], dtype=own.dtype)
        direction = self._direction((weights / weights.sum()) @ own, others)
        if direction is None:
            context.record_round(RoundRecord("unlearn", number, model, loss, skipped=True))
            return model
        # FedOSD (paper 001) Alg 1, line 8: ω ← ω − η d.
        after = model - task.learning_rate * direction
        cosines = client_cosines(others, direction)
        conflicts, cosine = int((cosines < -1e-6).sum()), float(cosines.abs().max())
        context.record_round(RoundRecord("unlearn", number, after, loss, conflicts, cosine))
        return after

    def _direction(self, own: Tensor, others: Tensor) -> Tensor | None:
        """The direction to subtract, ``[d]``; None if every direction has a conflict."""
        match self.variant:
            case "no-orthogonal":
                return own
            case "common-descent":
                return common_descent(torch.cat([others, own[None]]))
            case _:
                return orthogonal_steepest_descent(own, others).direction
