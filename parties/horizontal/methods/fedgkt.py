"""FedGKT: the remaining clients train a student on generated images that a gate selects.

The gate excludes images that resemble the forgotten data. Every remaining client runs gated
knowledge transfer (GKT, Chundawat et al. 2023), as in the comparison by Mimir's authors (paper 003,
§VI-A3). The gate of Mimir's authors compares the features of an image at two clients. Features
differ between clients only in a network with prompts, so this gate needs such a network. The gate
of the original GKT compares classes, and works with every network. However, a gate that compares
classes excludes all images of each class that the leaving client has, even if remaining clients
also have rows of this class. There is no schedule of learning rates. If no image passes the gate at
any client, the round is recorded as skipped. If all clients have nearly the same features, a gate
that compares features excludes all images, so the rounds are skipped.
"""

from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field
from torch import Tensor, nn

from configs.client_unlearning import Reads
from configs.horizontal import HorizontalAgreement
from configs.table import Fraction, Positive
from models.prompts import PromptedNetwork
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import GatePlan, LocalTask
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

GateCriterion: TypeAlias = Literal["features", "classes"]


@dataclass(frozen=True, slots=True)
class FedGktState:
    """The state of FedGKT."""

    model: Tensor  # the model, ``[d]``
    # The original model with the leaving client's personal parameters, ``[d]``; None if the gate
    # compares classes.
    leaving: Tensor | None
    classes: tuple[int, ...]  # the leaving clients' classes; empty if the gate compares features


class FedGktSettings(DistillationSettings):
    """FedGKT: gated knowledge transfer (Chundawat et al. 2023) at the remaining clients."""

    # How images of the leaving clients are filtered out. features: by the similarity of features;
    # this gate needs personal = {kind = "mimir"}. classes: by the leaving clients' classes.
    gate: GateCriterion = "features"
    # Largest cosine similarity of features at which an image passes the gate.
    max_similarity: Annotated[float, Field(ge=-1, le=1)] = 0.9
    # Largest probability of the leaving clients' classes at which an image passes the gate.
    max_probability: Fraction = 0.01
    attention: Annotated[float, Field(ge=0)] = 250.0  # weight of the attention transfer
    temperature: Positive = 1.0

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that rows are images, and that the networks have the prompts that the gate needs.

        Raises:
            ValueError: the rows are no images, or the networks have no prompts.
        """
        agreement.require_images("fedgkt")
        if self.gate == "features" and agreement.personal.kind != "mimir":
            raise ValueError(
                "unlearning.fedgkt.gate = 'features' needs networks with prompts, one prompt per "
                'client: set personal = {kind = "mimir"}, or set unlearning.fedgkt.gate = '
                "'classes'"
            )

    def problem_with_sums(self, kind: str) -> str | None:
        """Return a message if the gate compares classes, which the leaving clients must send."""
        if self.gate != "classes":
            return None
        return (
            "gate = 'classes' needs the leaving clients to send their classes, but with "
            f"aggregation.kind = {kind!r} the classes of clients stay secret: set gate = "
            "'features' and personal.kind = 'mimir', or set aggregation.kind = 'none'"
        )


@dataclass(frozen=True, slots=True)
class FedGkt(DistillationMethod[FedGktState]):
    """Runs rounds of gated distillation at all remaining clients, then recovery."""

    # Rounds of distillation; ``epochs`` of the local task is the number of generator rounds.
    distil: RoundPlan
    recover: RoundPlan  # rounds of recovery
    losses: GatePlan  # weights of the losses, and the threshold of the gate
    network: nn.Module  # a network that defines the names of the parameters
    plan: FedGktSettings = field(default_factory=FedGktSettings)  # the other settings
    # The only remaining client that the method uses and whose model is unlearned; None: all
    # remaining clients.
    target_client: str | None = None
    labels: int = 0  # number of classes
    name: str = "fedgkt"
    label: ClassVar = Label("FedGKT", "data-free distillation with a gate")
    settings: ClassVar = FedGktSettings
    reads: ClassVar[Reads] = "leaving update"
    state: ClassVar[type[FedGktState]] = FedGktState

    @classmethod
    def from_settings(cls, plan: FedGktSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        by_features = plan.gate == "features"
        losses = GatePlan(
            student_steps=plan.inner, temperature=plan.temperature, attention=plan.attention,
            threshold=plan.max_similarity if by_features else plan.max_probability,
        )  # fmt: skip
        distil, recover = rounds(plan.distil, "distil"), rounds(plan.recover, "recover")
        target = rounds.agreement.unlearning.target_client
        labels = len(rounds.agreement.labels.classes)
        return cls(distil, recover, losses, rounds.network(), plan, target, labels)

    def tasks(self) -> list[LocalTask]:
        """Return the distillation and the report for the gate instead of its plan."""
        task, by_classes = self.distil.task, self.plan.gate == "classes"
        reported = replace(task, aim="classes" if by_classes else "personal-model")
        classes = tuple(range(self.labels)) if by_classes else ()
        return [self.recover.task, self._gated(task, classes), reported]

    def init(self, run: HorizontalRun) -> FedGktState:
        """Prepare the student, and receive what the gate compares.

        Raises:
            PolicyError: the gate compares features, which needs a network with prompts.
        """
        leaving, classes = None, tuple[int, ...]()
        if self.plan.gate == "classes":
            classes = self._classes(run)
        elif isinstance(self.network, PromptedNetwork):
            leaving = leaving_client_model(run, self.distil.task_at(0))
        else:
            raise PolicyError(
                'with gate = "features", fedgkt needs a network with prompts, because only then do '
                "features differ between clients; the agreed network has no prompts",
                'set personal = {kind = "mimir"}, or set unlearning.fedgkt.gate = "classes"',
            )
        model = initial_student(self.plan.init, run, self.network, self.name)
        return FedGktState(model, leaving, classes)

    def round(self, run: HorizontalRun, state: FedGktState, k: int) -> StepResult[FedGktState]:
        """Run one round of gated distillation."""
        task = self._gated(self.distil.task_at(k), state.classes)
        slots = {"model": state.model, "teacher": run.original}
        if state.leaving is not None:
            slots["second"] = state.leaving
        mean = run.mean_update(target_members(run, self.target_client), task, slots)
        model, closed = state.model + mean.delta.to(state.model.dtype), not mean.delta.any()
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss, skipped=closed))
        return replace(state, model=model), record

    def _gated(self, task: LocalTask, classes: tuple[int, ...]) -> LocalTask:
        return replace(task, aim="gated", gate=replace(self.losses, classes=classes))

    def _classes(self, run: HorizontalRun) -> tuple[int, ...]:
        """The leaving clients' classes, which the server and all remaining clients receive."""
        class_task = replace(self.distil.task_at(0), aim="classes")
        report = run.mean_update(run.leaving, class_task, {"model": run.original}).delta
        return tuple(int(label) for label in report.nonzero())
