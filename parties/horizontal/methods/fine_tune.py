"""Fine-tune (baseline): train the remaining clients further, without any unlearning step."""

from dataclasses import dataclass

from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import UnlearningContext
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class FineTune:
    """Runs recovery rounds on the original model; every table of results contains Fine-tune."""

    round_plan: RoundPlan
    name: str = "fine-tune"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """The maximum number of rounds that the method adds to the record of a run."""
        return self.round_plan.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        return recover(context, context.original, self.round_plan)
