"""The student of a data-free distillation: initial parameters, and the leaving client's model."""

from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor, nn

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.table import Count
from parties.horizontal.engine.aggregation import add_personal_parameters
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.personalisation import last_linear_name, parameter_mask
from parties.horizontal.methods.method import StagedMethod, State
from parties.horizontal.methods.recover import Recovery, TrainedState

StudentInit: TypeAlias = Literal["random", "warm", "head-reset"]
# Prefixes of the parameters of networks with prompts that the distillation does not change.
PROMPT_PARAMETERS = ("generator.", "base", "descriptor")


class DistillationSettings(ClientMethodSettings):
    """Settings of a method that distils a student."""

    uses_target_client: ClassVar[bool] = True

    # Rounds of distillation at all remaining clients; epochs is the number of generator rounds,
    # batch the number of generated images.
    distil: StageSettings = StageSettings(rounds=5, learning_rate=1e-3, epochs=50, batch=128)
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery
    # Initial student. random: random weights. warm: the trained model. head-reset: the trained
    # model with a new head.
    init: StudentInit = "random"
    inner: Count = 10  # steps of the student per step of the generator


class DistillationMethod(StagedMethod[State]):
    """A method whose rounds distil a student at remaining clients."""

    distil: RoundPlan  # plan of the rounds of distillation
    # The only remaining client that the method uses and whose model is unlearned; None: all
    # remaining clients.
    target_client: str | None

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of distillation."""
        return self.distil.rounds

    def recovery(self, run: HorizontalRun, state: State) -> Recovery:
        """Return the rounds of recovery."""
        members = target_members(run, self.target_client)
        return Recovery(self.recover, TrainedState(state.model), members)


def initial_student(
    init: StudentInit, run: HorizontalRun, network: nn.Module, stream: str
) -> Tensor:
    """Return the initial parameters of the student, ``[d]``.

    For ``random``, all weights except those of the prompts are random. For ``warm``, the student
    starts from the original model. For ``head-reset``, the student starts from the
    original model with a random head.
    """
    match init:
        case "warm":
            return run.original
        case "head-reset":
            fresh = parameter_mask(network, (last_linear_name(network),))
        case "random":
            fresh = ~parameter_mask(network, PROMPT_PARAMETERS)
    return torch.where(fresh, run.initial_model(stream), run.original)


def leaving_client_model(run: HorizontalRun, task: LocalTask) -> Tensor:
    """Return the original model with the leaving client's personal parameters, ``[d]``.

    The server needs these parameters, so the leaving client sends them to the server.
    """
    return add_personal_parameters(run, run.leaving, task, run.original)


def target_members(run: HorizontalRun, target_client: str | None) -> list[Member]:
    """Return the remaining members that a method uses.

    Only ``target_client`` is used; if it is None, all remaining members are used.
    """
    return [each for each in run.remaining if target_client in (None, each.client)]
