"""Mimir: the remaining clients distil a student from their own models and generated images.

The leaving client sends its descriptor to the server once, and the descriptor is deleted
afterwards. Only backbone and head are unlearned. The shared prompt parameters do not change, so
these parameters still contain information about the leaving client (paper 003: Mimir).
"""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field
from torch import Tensor, nn

from configs.client_unlearning import ClientMethodSettings, StageSettings
from configs.horizontal import HorizontalAgreement
from configs.table import Count, Positive
from models.prompts import PromptedNetwork
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import DistillationPlan, LocalTask
from parties.horizontal.local.networks import build_whole_network
from parties.horizontal.methods.method import ClientMethod, StageBuilder
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.horizontal.methods.student import (
    StudentInit,
    initial_student,
    leaving_client_model,
    target_members,
)
from parties.requests.driver import StepRecord, Stop


@dataclass(frozen=True, slots=True)
class MimirState:
    """The state of Mimir.

    Attributes:
        model: the model, ``[d]``.
        leaving: the original model with the leaving client's personal parameters, ``[d]``.
    """

    model: Tensor
    leaving: Tensor


class MimirSettings(ClientMethodSettings):
    """Settings of Mimir's unlearning method, which needs personal = {kind = "mimir"}."""

    # Rounds of distillation at all remaining clients; epochs is the number of generator rounds,
    # batch the number of generated images.
    distil: StageSettings = StageSettings(rounds=5, learning_rate=1e-3, epochs=50, batch=128)
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery
    # Initial student. random: random weights. warm: the trained model. head-reset: the trained
    # model with a new head.
    init: StudentInit = "random"
    inner: Count = 10  # steps T_k of the student per step of the generator
    divergence: Annotated[float, Field(ge=0)] = 5.0  # weight β of the divergence
    attention: Annotated[float, Field(ge=0)] = 2.0  # weight γ of the attention transfer
    temperature: Positive = 2.0
    # Whether the student's and the teacher's features are compared after the prompt is applied;
    # false: before the prompt is applied.
    after_prompt: bool = True
    # How the student's features move relative to the leaving clients' features.
    sign: Literal["align", "repel", "orthogonal"] = "align"

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that the networks have prompts.

        Raises:
            ValueError: the networks have no prompts.
        """
        if agreement.personal.kind != "mimir":
            raise ValueError(
                "the method mimir needs networks with prompts, one prompt per client: set "
                'personal = {kind = "mimir"}'
            )


@dataclass(frozen=True, slots=True)
class Mimir(ClientMethod[MimirState]):
    """Runs rounds of distillation at all remaining clients, then recovery.

    Attributes:
        distil: plan of the distillation rounds; in each of these rounds, every client trains a
            generator and the student in turn, ``epochs`` times.
        recover: plan of the recovery rounds.
        plan: weights of the losses.
        network: a network whose parameters have the names that the model's parameters have.
        start: initial parameters of the student.
        target_client: the only client whose model is unlearned; None: the models of all remaining
            clients are unlearned.
    """

    distil: RoundPlan
    recover: RoundPlan
    plan: DistillationPlan
    network: nn.Module
    start: StudentInit = "random"
    target_client: str | None = None
    name: str = "mimir"
    settings: ClassVar = MimirSettings
    state: ClassVar[type[MimirState]] = MimirState
    needs_single_updates: ClassVar[bool] = True

    @classmethod
    def from_agreement(
        cls, agreement: HorizontalAgreement, plan: MimirSettings, rounds: StageBuilder
    ) -> Self:
        """Build the method from its settings."""
        losses = DistillationPlan(
            student_steps=plan.inner, temperature=plan.temperature,
            divergence=plan.divergence, attention=plan.attention,
            after_prompt=plan.after_prompt, sign=plan.sign,
        )  # fmt: skip
        distil, recover = rounds(plan.distil, "distil"), rounds(plan.recover, "recover")
        shapes, target = build_whole_network(agreement, "shape"), agreement.unlearning.target_client
        return cls(distil, recover, losses, shapes, plan.init, target)

    def tasks(self) -> list[LocalTask]:
        """Return the distillation and the report of personal parameters instead of its plan."""
        task = self.distil.task
        reported = replace(task, aim="personal-model")
        return [self.recover.task, self._distilled(task), reported]

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of distillation."""
        return self.distil.rounds

    def init(self, run: HorizontalRun) -> MimirState:
        """Prepare the student, and receive the leaving client's descriptor.

        Raises:
            PolicyError: the network has no prompts.
        """
        if not isinstance(self.network, PromptedNetwork):
            raise PolicyError(
                "mimir needs a network with prompts, but the agreed network has no prompts",
                'set personal = {kind = "mimir"}',
            )
        leaving = leaving_client_model(run, self.distil.task_at(0))
        return MimirState(initial_student(self.start, run, self.network, self.name), leaving)

    def step(
        self, run: HorizontalRun, state: MimirState, k: int
    ) -> tuple[MimirState, StepRecord] | Stop:
        """Run one round of distillation."""
        if k == self.distil.rounds:
            return Stop()
        task = self._distilled(self.distil.task_at(k))
        slots = {"model": state.model, "teacher": run.original, "second": state.leaving}
        mean = run.mean_update(target_members(run, self.target_client), task, slots)
        model = state.model + mean.delta.to(state.model.dtype)
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss))
        return replace(state, model=model), record

    def _distilled(self, task: LocalTask) -> LocalTask:
        return replace(task, aim="distil", distil=self.plan)

    def recovery(self, run: HorizontalRun, state: MimirState) -> Recovery:
        """Return the rounds of recovery."""
        members = target_members(run, self.target_client)
        return Recovery(self.recover, TrainedState(state.model), members)
