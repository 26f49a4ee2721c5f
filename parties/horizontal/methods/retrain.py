"""Retrain: the remaining clients train a new model; other methods are compared with Retrain."""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.clusters import mean_model
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import UnlearningContext
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Retrain:
    """Trains a new model with the remaining clients, for as many rounds as the original training.

    Attributes:
        round_plan: plan of the training rounds.
        name: name of this Retrain model; its random stream has the same name.
        groups: the clients of each cluster; empty if all clients train together.
    """

    round_plan: RoundPlan
    name: str = "retrain"
    groups: tuple[tuple[str, ...], ...] = ()
    guarantee: Guarantee = Guarantee.EXACT
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """The maximum number of rounds that the method adds to the record of a run."""
        return self.round_plan.rounds * max(1, len(self.groups))

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        fresh = context.initial_model(self.name)
        parts = [[m for m in context.remaining if m.client in group] for group in self.groups]
        contexts = [replace(context, remaining=part) for part in parts if part] or [context]
        return mean_model([recover(each, fresh, self.round_plan) for each in contexts])
