"""Recovery: the remaining clients continue the training to restore accuracy after unlearning."""

import torch
from torch import Tensor

from parties.horizontal.engine.cohort import quorum_updates
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import Slots
from unlearning.horizontal.fedosd import Projection, project_recovery

NO_SLOTS: Slots = {}


def recover(
    context: UnlearningContext, model: Tensor, round_plan: RoundPlan, extra_slots: Slots = NO_SLOTS
) -> Tensor:
    """Run training rounds with the remaining clients and return the trained model, ``[d]``.

    Args:
        context: the clients of the request, and the callback that records each round.
        model: the model after unlearning, ``[d]``.
        round_plan: settings of the rounds.
        extra_slots: vectors that the clients' task needs besides the model, ``[d]`` each.
    """
    rule = round_plan.rule
    for number in range(round_plan.rounds):
        chosen = round_plan.select_members(context.remaining, number)
        mean = context.cohort.mean_update(
            chosen, round_plan.task_at(number), {"model": model, **extra_slots}
        )
        model, rule = rule.step(model, mean.delta.to(model.dtype))
        context.record_round(RoundRecord("recover", number, model, mean.loss))
    return model


def recover_fedosd(
    context: UnlearningContext, model: Tensor, round_plan: RoundPlan, project: Projection
) -> Tensor:
    """Run FedOSD's recovery from ``model``, ``[d]``, and return the recovered model, ``[d]``.

    Each client's update is projected, so that the projected update does not move the model back
    to the original model. All clients have the same weight.
    """
    for number in range(round_plan.rounds):
        task, away = round_plan.task_at(number), model - context.original
        total, loss, count = torch.zeros_like(model), 0.0, 0
        for _, found in quorum_updates(context.cohort, context.remaining, task, {"model": model}):
            total += project_recovery(found.delta / -task.learning_rate, away, project)
            loss, count = loss + found.loss, count + 1
        model = model - task.learning_rate * total / count
        context.record_round(RoundRecord("recover", number, model, loss / count))
    return model
