"""Mimir: the remaining clients distil a student from their own models and generated images.

The leaving client sends its descriptor to the server once, and the descriptor is deleted
afterwards. Only backbone and head are unlearned. The shared prompt parameters do not change, so
these parameters still contain information about the leaving client (paper 003: Mimir).
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field
from torch import Tensor, nn

from configs.client_unlearning import Reads
from configs.horizontal import HorizontalAgreement
from configs.table import Positive
from models.prompts import PromptedNetwork
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import DistillationPlan, LocalTask
from parties.horizontal.methods.method import Stages
from parties.horizontal.methods.student import (
    DistillationMethod,
    DistillationSettings,
    initial_student,
    leaving_client_model,
    target_members,
)
from parties.report.method_names import Label
from parties.requests.driver import StepResult


@dataclass(frozen=True, slots=True)
class MimirState:
    """The state of Mimir."""

    model: Tensor  # the model, ``[d]``
    leaving: Tensor  # the original model with the leaving client's personal parameters, ``[d]``


class MimirSettings(DistillationSettings):
    """Settings of Mimir's unlearning method, which needs personal = {kind = "mimir"}."""

    divergence: Annotated[float, Field(ge=0)] = 5.0  # weight β of the divergence
    attention: Annotated[float, Field(ge=0)] = 2.0  # weight γ of the attention transfer
    temperature: Positive = 2.0
    # Whether the student's and the teacher's features are compared after the prompt is applied;
    # false: before the prompt is applied.
    after_prompt: bool = True
    # How the student's features move relative to the leaving clients' features.
    sign: Literal["align", "repel", "orthogonal"] = "align"

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that rows are images, and that the networks have prompts.

        Raises:
            ValueError: the rows are no images, or the networks have no prompts.
        """
        agreement.require_images("mimir")
        if agreement.personal.kind != "mimir":
            raise ValueError(
                "the method mimir needs networks with prompts, one prompt per client: set "
                'personal = {kind = "mimir"}'
            )


@dataclass(frozen=True, slots=True)
class Mimir(DistillationMethod[MimirState]):
    """Runs rounds of distillation at all remaining clients, then recovery."""

    # Plan of the distillation rounds; in each of these rounds, every client trains a generator and
    # the student in turn, ``epochs`` times.
    distil: RoundPlan
    recover: RoundPlan  # plan of the recovery rounds
    losses: DistillationPlan  # weights of the losses
    network: nn.Module  # a network whose parameters have the names that the model's parameters have
    plan: MimirSettings = field(default_factory=MimirSettings)  # the other settings
    # The only client whose model is unlearned; None: the models of all remaining clients are
    # unlearned.
    target_client: str | None = None
    name: str = "mimir"
    label: ClassVar = Label("Mimir", "data-free distillation with prompts")
    settings: ClassVar = MimirSettings
    state: ClassVar[type[MimirState]] = MimirState
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: MimirSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        losses = DistillationPlan(
            student_steps=plan.inner, temperature=plan.temperature,
            divergence=plan.divergence, attention=plan.attention,
            after_prompt=plan.after_prompt, sign=plan.sign,
        )  # fmt: skip
        distil, recover = rounds(plan.distil, "distil"), rounds(plan.recover, "recover")
        target = rounds.agreement.unlearning.target_client
        return cls(distil, recover, losses, rounds.network(), plan, target)

    def tasks(self) -> list[LocalTask]:
        """Return the distillation and the report of personal parameters instead of its plan."""
        task = self.distil.task
        reported = replace(task, aim="personal-model")
        return [self.recover.task, self._distilled(task), reported]

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
        return MimirState(initial_student(self.plan.init, run, self.network, self.name), leaving)

    def round(self, run: HorizontalRun, state: MimirState, k: int) -> StepResult[MimirState]:
        """Run one round of distillation."""
        task = self._distilled(self.distil.task_at(k))
        slots = {"model": state.model, "teacher": run.original, "second": state.leaving}
        mean = run.mean_update(target_members(run, self.target_client), task, slots)
        model = state.model + mean.delta.to(state.model.dtype)
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss))
        return replace(state, model=model), record

    def _distilled(self, task: LocalTask) -> LocalTask:
        return replace(task, aim="distil", distil=self.losses)
