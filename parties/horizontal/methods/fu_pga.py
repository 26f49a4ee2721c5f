"""FU-PGA: the leaving client's gradient ascent within a ball, then recovery.

Notation as in ``unlearning.horizontal.baselines``. A client that forgets only some of its rows
is treated as two clients: a leaving client with the rows to forget, and a remaining client with the
other rows.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.baselines import (
    ball_centre,
    ball_radius,
    project_to_ball,
    squared_model_distance,
)

RANDOM = 10  # random models; their distance from the reference gives the radius of the ball


@dataclass(frozen=True, slots=True)
class FuPga:
    """Runs projected gradient ascent from an estimate of the remaining clients' model.

    Attributes:
        last: plan of the training rounds; the leaving client repeats the local task of the last
            training round, and the result is w_u, the model of the leaving client.
        ascent: plan of the rounds of gradient ascent at the leaving client.
        recover: plan of the recovery rounds.
        max_distance: the ascent stops when the *squared* distance between the current model and
            w_u, the model of the leaving client, exceeds this number; the program of FU-PGA's
            authors also squares the distance.
    """

    last: RoundPlan
    ascent: RoundPlan
    recover: RoundPlan
    max_distance: float = 2.2
    name: str = "fu-pga"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = True

    @property
    def rounds(self) -> int:
        """The maximum number of rounds that the method adds to the record of a run."""
        return self.ascent.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``.

        Raises:
            PolicyError: no client remains.
        """
        gone, clients = len(context.leaving), len(context.leaving) + len(context.remaining)
        if not context.remaining:
            raise PolicyError(
                "the method 'fu-pga' needs at least one remaining client, but no client remains",
                "keep at least one client with rows, or start a new federation",
            )
        task = self.last.task_at(max(0, self.last.rounds - 1))
        own = context.cohort.mean_update(context.leaving, task, {"model": context.original})
        leaving = context.original + own.delta.to(context.original.dtype)
        centre = ball_centre(context.original, leaving, clients, gone)
        random = torch.stack([context.initial_model(f"{self.name} {k}") for k in range(RANDOM)])
        size, model = ball_radius(centre, random), centre
        for number in range(self.ascent.rounds):
            task = self.ascent.task_at(number)
            mean = context.cohort.mean_update(context.leaving, task, {"model": model})
            model = project_to_ball(model + mean.delta.to(model.dtype), centre, size)
            context.record_round(RoundRecord("unlearn", number, model, mean.loss))
            if squared_model_distance(model, leaving) > self.max_distance:
                break
        return recover(context, model, self.recover)
