"""The student of a data-free distillation: initial parameters, and the leaving client's model."""

from dataclasses import replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from parties.horizontal.engine.aggregation import add_personal_parameters
from parties.horizontal.engine.unlearning_context import UnlearningContext
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.personalisation import last_linear_name, parameter_mask

StudentInit: TypeAlias = Literal["random", "warm", "head-reset"]
# Prefixes of the parameters of networks with prompts that the distillation does not change.
PROMPT_PARAMETERS = ("generator.", "base", "descriptor")


def initial_student(
    init: StudentInit, context: UnlearningContext, network: nn.Module, stream: str
) -> Tensor:
    """Return the initial parameters of the student, ``[d]``.

    For ``random``, all weights except those of the prompts are random. For ``warm``, the student
    starts from the original model. For ``head-reset``, the student starts from the
    original model with a random head.
    """
    match init:
        case "warm":
            return context.original
        case "head-reset":
            fresh = parameter_mask(network, (last_linear_name(network),))
        case "random":
            fresh = ~parameter_mask(network, PROMPT_PARAMETERS)
    return torch.where(fresh, context.initial_model(stream), context.original)


def leaving_client_model(context: UnlearningContext, task: LocalTask) -> Tensor:
    """Return the original model with the leaving client's personal parameters, ``[d]``.

    The server needs these parameters, so the leaving client sends them to the server.
    """
    return add_personal_parameters(context.cohort, context.leaving, task, context.original)


def for_target_client(context: UnlearningContext, target_client: str | None) -> UnlearningContext:
    """Return a copy of ``context`` in which ``target_client`` is the only remaining client.

    If ``target_client`` is None, all remaining clients are kept.
    """
    kept = [each for each in context.remaining if target_client in (None, each.client)]
    return replace(context, remaining=kept)
