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

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

from torch import Tensor, nn

from models.prompts import PromptedNetwork
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.local_task import GatePlan
from parties.horizontal.methods.method import ClientMethod
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.horizontal.methods.student import (
    StudentInit,
    initial_student,
    leaving_client_model,
    target_members,
)
from parties.requests.driver import StepRecord, Stop

GateCriterion: TypeAlias = Literal["features", "classes"]


@dataclass(frozen=True, slots=True)
class FedGktState:
    """The state of FedGKT.

    Attributes:
        model: the model, ``[d]``.
        leaving: the original model with the leaving client's personal parameters, ``[d]``; None if
            the gate compares classes.
        classes: the leaving clients' classes; empty if the gate compares features.
    """

    model: Tensor
    leaving: Tensor | None
    classes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FedGkt(ClientMethod[FedGktState]):
    """Runs rounds of gated distillation at all remaining clients, then recovery.

    Attributes:
        distil: rounds of distillation; ``epochs`` of the local task is the number of generator
            rounds.
        recover: rounds of recovery.
        plan: weights of the losses, and the gate's threshold.
        network: a network that defines the names of the parameters.
        gate: what the gate compares: ``features`` or ``classes``.
        start: rule for the student's initial parameters; see ``initial_student``.
        target_client: the only remaining client that the method uses and whose model is unlearned;
            None: all remaining clients.
    """

    distil: RoundPlan
    recover: RoundPlan
    plan: GatePlan
    network: nn.Module
    gate: GateCriterion = "features"
    start: StudentInit = "random"
    target_client: str | None = None
    name: str = "fedgkt"
    state: ClassVar[type[FedGktState]] = FedGktState

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of distillation."""
        return self.distil.rounds

    def init(self, run: HorizontalRun) -> FedGktState:
        """Prepare the student, and receive what the gate compares.

        Raises:
            PolicyError: the gate compares features, which needs a network with prompts.
        """
        leaving, classes = None, tuple[int, ...]()
        if self.gate == "classes":
            classes = self._classes(run)
        elif isinstance(self.network, PromptedNetwork):
            leaving = leaving_client_model(run, self.distil.task_at(0))
        else:
            raise PolicyError(
                'with gate = "features", fedgkt needs a network with prompts, because only then do '
                "features differ between clients; the agreed network has no prompts",
                'set personal = {kind = "mimir"}, or set unlearning.fedgkt.gate = "classes"',
            )
        model = initial_student(self.start, run, self.network, self.name)
        return FedGktState(model, leaving, classes)

    def step(
        self, run: HorizontalRun, state: FedGktState, k: int
    ) -> tuple[FedGktState, StepRecord] | Stop:
        """Run one round of gated distillation."""
        if k == self.distil.rounds:
            return Stop()
        plan = replace(self.plan, classes=state.classes) if state.classes else self.plan
        task = replace(self.distil.task_at(k), aim="gated", gate=plan)
        slots = {"model": state.model, "teacher": run.original}
        if state.leaving is not None:
            slots["second"] = state.leaving
        mean = run.mean_update(target_members(run, self.target_client), task, slots)
        model, closed = state.model + mean.delta.to(state.model.dtype), not mean.delta.any()
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss, skipped=closed))
        return replace(state, model=model), record

    def recovery(self, run: HorizontalRun, state: FedGktState) -> Recovery:
        """Return the rounds of recovery."""
        members = target_members(run, self.target_client)
        return Recovery(self.recover, TrainedState(state.model), members)

    def _classes(self, run: HorizontalRun) -> tuple[int, ...]:
        """The leaving clients' classes, which the server and all remaining clients receive."""
        class_task = replace(self.distil.task_at(0), aim="classes")
        report = run.mean_update(run.leaving, class_task, {"model": run.original}).delta
        return tuple(int(label) for label in report.nonzero())
