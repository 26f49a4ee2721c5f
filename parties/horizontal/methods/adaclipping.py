"""A method similar to AdaClipping: dampen parameters that matter mostly for the leaving client."""

from dataclasses import dataclass

from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.baselines import dampen_parameters


@dataclass(frozen=True, slots=True)
class AdaClipping:
    """The server dampens parameters in one step; then the remaining clients run recovery.

    Attributes:
        fisher_task: the local task that reports Fisher information.
        recover: rounds of recovery.
        ratio: a parameter is dampened if its Fisher information at the leaving client is more than
            ``ratio`` times its Fisher information at the other clients.
        strength: λ.
    """

    fisher_task: LocalTask
    recover: RoundPlan
    ratio: float = 10.0
    strength: float = 1.0
    name: str = "adaclipping-like"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """Largest number of rounds that the method records."""
        return 1 + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        slots, dtype = {"model": context.original}, context.original.dtype
        own = context.cohort.mean_update(context.leaving, self.fisher_task, slots).delta.to(dtype)
        others = context.cohort.mean_update(context.remaining, self.fisher_task, slots).delta.to(
            dtype
        )
        model = dampen_parameters(context.original, own, others, self.ratio, self.strength)
        context.record_round(RoundRecord("unlearn", 0, model))
        return recover(context, model, self.recover)
