"""EWC-SGA: the leaving client's gradient ascent with an elastic penalty.

The penalty is large where the remaining clients' Fisher information is large.

Notation (Wu et al. 2022): F = diagonal Fisher information on the remaining clients' rows; θ_g = the
original model; λ = the strength of the penalty; L_ce(D_u) = the cross entropy of the forgotten
rows. The leaving clients minimise −L_ce(D_u) + (λ/2) Σ F_i (θ_i − θ_g,i)². In the paper, the
clients maximise the penalty too. This pushes the model away from θ_g, so the penalty is minimised
here.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee

FLOOR = 1e-8  # smallest entry of F


@dataclass(frozen=True, slots=True)
class EwcSga:
    """Runs gradient ascent with an elastic penalty, and then recovery.

    Attributes:
        ascent: rounds of gradient ascent; the field ``proximal`` of their local task is λ.
        recover: rounds of recovery.
    """

    ascent: RoundPlan
    recover: RoundPlan
    name: str = "ewc-sga"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """Largest number of rounds that the method records."""
        return self.ascent.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        fisher_task = replace(self.ascent.task_at(0), aim="fisher")
        fisher = context.cohort.mean_update(
            context.remaining, fisher_task, {"model": context.original}
        )
        fixed = {
            "anchor": context.original,
            "fisher": fisher.delta.to(context.original.dtype).clamp_min(FLOOR),
        }
        model = context.original
        for number in range(self.ascent.rounds):
            slots = {"model": model, **fixed}
            mean = context.cohort.mean_update(context.leaving, self.ascent.task_at(number), slots)
            model = model + mean.delta.to(model.dtype)
            context.record_round(RoundRecord("unlearn", number, model, mean.loss))
        return recover(context, model, self.recover)
