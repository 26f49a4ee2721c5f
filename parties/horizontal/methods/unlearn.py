"""The course of an unlearning method: its own steps, then the steps of its recovery."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from parties.common.errors import Diverged
from parties.horizontal.engine.cohort import require_finite
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.methods.method import AnyClientMethod
from parties.requests.driver import carry_out


@dataclass(frozen=True, slots=True)
class UnlearnedModel:
    """An unlearned model and its cost."""

    # The unlearned model, ``[d]``. If the method diverged, ``model`` is the last finite model,
    # which is not a valid result.
    model: Tensor
    # The model between unlearning and recovery, ``[d]``; None if there were no recovery rounds.
    before_recovery: Tensor | None
    seconds: float  # run time of the method; the time for measurements is not counted
    size: int  # number of bytes sent and received; the bytes for measurements are not counted
    rounds: list[dict[str, Any]]  # a record of every round, without the round's model
    branch: str  # name under which the clients keep their personal parameters for ``model``
    branch_before_recovery: str  # the same name for ``before_recovery``
    # The round in which the method diverged, and the error; None if the method did not diverge.
    diverged: str | None = None


def unlearn(method: AnyClientMethod, run: HorizontalRun) -> UnlearnedModel:
    """Carry out an unlearning method, from its first step or from the step that was interrupted.

    If the method diverges, the result contains the last finite model.
    """
    began, before, diverged = run.branch, None, None
    try:
        state: Any = carry_out(method, run)
        began = run.branch
        model, unlearned = state.model, bool(run.rounds)
        recovery = method.recovery(run, state)
        if recovery is not None and recovery.round_plan.rounds:
            before = model if unlearned else None
            run.begin_recovery()
            model = carry_out(recovery, run)
        require_finite(model)
    except Diverged as error:
        diverged = f"diverged in round {len(run.rounds) + 1}: {error}"
        model = run.model
    spent = run.cost.spent
    return UnlearnedModel(
        model, before, spent.seconds, spent.size, run.rounds, run.branch, began, diverged
    )
