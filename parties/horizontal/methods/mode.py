"""MoDe: rounds of erasure by a degradation model alternate with rounds of guidance.

Notation as in ``unlearning.horizontal.baselines``. The remaining clients train the degradation
model from random weights. In a round of guidance the leaving client trains with the predictions of
the degradation model instead of labels, and the remaining clients train with true labels.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.baselines import mode_erasure


@dataclass(frozen=True, slots=True)
class MoDe:
    """Runs rounds of erasure and rounds of guidance in turn, then recovery.

    Attributes:
        degrade: plan of the erasure rounds; each round trains the degradation model, and replaces
            the current model with a weighted mean of the current model and the degradation model.
        guide: plan of the guidance rounds; a guidance round follows each erasure round. If the
            numbers of rounds differ, the remaining rounds of one kind run without the other kind.
        recover: plan of the recovery rounds.
        momentum: λ, the weight of the current model; the degradation model has the weight 1 − λ.
    """

    degrade: RoundPlan
    guide: RoundPlan
    recover: RoundPlan
    momentum: float = 0.95
    name: str = "mode"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """The maximum number of rounds that the method adds to the record of a run."""
        return max(self.degrade.rounds, self.guide.rounds) + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        model, degraded = context.original, context.initial_model(self.name)
        for number in range(max(self.degrade.rounds, self.guide.rounds)):
            loss: float | None = None
            if number < self.degrade.rounds:
                task = self.degrade.task_at(number)
                update = context.cohort.mean_update(context.remaining, task, {"model": degraded})
                degraded = degraded + update.delta.to(degraded.dtype)
                model = mode_erasure(model, degraded, self.momentum)
            if number < self.guide.rounds:
                model, loss = self._guided(context, model, degraded, self.guide.task_at(number))
            context.record_round(RoundRecord("unlearn", number, model, loss))
        return recover(context, model, self.recover)

    def _guided(
        self, context: UnlearningContext, model: Tensor, degraded: Tensor, task: LocalTask
    ) -> tuple[Tensor, float]:
        """The model after a round of guidance, ``[d]``, and the loss of the remaining clients."""
        pseudo_label_task = replace(task, aim="pseudo-labels")
        leaving = context.cohort.mean_update(
            context.leaving, pseudo_label_task, {"model": model, "teacher": degraded}
        )
        remaining = context.cohort.mean_update(context.remaining, task, {"model": model})
        rows = leaving.rows + remaining.rows
        change = (leaving.rows * leaving.delta + remaining.rows * remaining.delta) / rows
        return model + change.to(model.dtype), remaining.loss
