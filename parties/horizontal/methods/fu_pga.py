"""FU-PGA: the leaving client's gradient ascent within a ball, then recovery.

Notation as in ``unlearning.horizontal.baselines``. A client that forgets only some of its rows
is treated as two clients: a leaving client with the rows to forget, and a remaining client with the
other rows.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from configs.client_unlearning import Reads
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.engine.training_plan import network_training_plan
from parties.horizontal.methods.ascent import ClientAscentSettings
from parties.horizontal.methods.method import StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import StepResult, Stop
from unlearning.horizontal.baselines import (
    ball_centre,
    ball_radius,
    project_to_ball,
    squared_model_distance,
)

RANDOM = 10  # random models; their distance from the reference gives the radius of the ball


@dataclass(frozen=True, slots=True)
class FuPgaState:
    """The state of FU-PGA."""

    model: Tensor  # the model, ``[d]``
    leaving: Tensor  # w_u, the model of the leaving client, ``[d]``
    centre: Tensor  # the centre of the ball, ``[d]``
    radius: float  # the radius of the ball


@dataclass(frozen=True, slots=True)
class FuPga(StagedMethod[FuPgaState]):
    """Runs projected gradient ascent from an estimate of the remaining clients' model."""

    # Plan of the training rounds; the leaving client repeats the local task of the last training
    # round, and the result is w_u, the model of the leaving client.
    last: RoundPlan
    ascent: RoundPlan  # plan of the rounds of gradient ascent at the leaving client
    recover: RoundPlan  # plan of the recovery rounds
    plan: ClientAscentSettings = field(default_factory=ClientAscentSettings)  # the other settings
    name: str = "fu-pga"
    label: ClassVar = Label("FU-PGA", "gradient ascent within a ball")
    settings: ClassVar = ClientAscentSettings
    state: ClassVar[type[FuPgaState]] = FuPgaState
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: ClientAscentSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        last = network_training_plan(rounds.agreement, "fu-pga last")
        ascent = rounds(plan.ascent, "climb", plan.aim)
        return cls(last, ascent, rounds(plan.recover, "recover"), plan)

    def count(self, _run: HorizontalRun) -> int:
        """Return the largest number of rounds of gradient ascent."""
        return self.ascent.rounds

    def init(self, run: HorizontalRun) -> FuPgaState:
        """Start from the centre of the ball, an estimate of the remaining clients' model.

        Raises:
            PolicyError: no client remains.
        """
        gone, clients = len(run.leaving), len(run.leaving) + len(run.remaining)
        if not run.remaining:
            raise PolicyError(
                "the method 'fu-pga' needs at least one remaining client, but no client remains",
                "keep at least one client with rows, or start a new federation",
            )
        task = self.last.task_at(max(0, self.last.rounds - 1))
        own = run.mean_update(run.leaving, task, {"model": run.original})
        leaving = run.original + own.delta.to(run.original.dtype)
        centre = ball_centre(run.original, leaving, clients, gone)
        random = torch.stack([run.initial_model(f"{self.name} {k}") for k in range(RANDOM)])
        return FuPgaState(centre, leaving, centre, ball_radius(centre, random))

    def round(self, run: HorizontalRun, state: FuPgaState, k: int) -> StepResult[FuPgaState]:
        """Run one round of gradient ascent, unless the model is far from w_u."""
        far = k and squared_model_distance(state.model, state.leaving) > self.plan.max_distance
        if far:
            return Stop()
        mean = run.mean_update(run.leaving, self.ascent.task_at(k), {"model": state.model})
        moved = state.model + mean.delta.to(state.model.dtype)
        model = project_to_ball(moved, state.centre, state.radius)
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss))
        return replace(state, model=model), record
