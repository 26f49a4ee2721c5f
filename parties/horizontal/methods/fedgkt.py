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
from typing import Literal, TypeAlias

from torch import Tensor, nn

from models.prompts import PromptedNetwork
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import GatePlan
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.student import (
    StudentInit,
    for_target_client,
    initial_student,
    leaving_client_model,
)
from unlearning.guarantee import Guarantee

GateCriterion: TypeAlias = Literal["features", "classes"]


@dataclass(frozen=True, slots=True)
class FedGkt:
    """Runs rounds of gated distillation at all remaining clients, then recovery.

    Attributes:
        distil: rounds of distillation; ``epochs`` of the local task is the number of generator
            rounds.
        recover: rounds of recovery.
        plan: weights of the losses, and the gate's threshold.
        network: a network that defines the names of the parameters.
        gate: what the gate compares: ``features`` or ``classes``.
        init: rule for the student's initial parameters; see ``initial_student``.
        target_client: the only remaining client that the method uses and whose model is unlearned;
            None: all remaining clients.
    """

    distil: RoundPlan
    recover: RoundPlan
    plan: GatePlan
    network: nn.Module
    gate: GateCriterion = "features"
    init: StudentInit = "random"
    target_client: str | None = None
    name: str = "fedgkt"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """Largest number of rounds that the method records."""
        return self.distil.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``.

        Raises:
            PolicyError: the gate compares features, which needs a network with prompts.
        """
        context = for_target_client(context, self.target_client)
        plan, teachers = self.plan, {"teacher": context.original}
        if self.gate == "classes":
            plan = replace(plan, classes=self._classes(context))
        elif isinstance(self.network, PromptedNetwork):
            teachers["second"] = leaving_client_model(context, self.distil.task_at(0))
        else:
            raise PolicyError(
                'with gate = "features", fedgkt needs a network with prompts, because only then do '
                "features differ between clients; the agreed network has no prompts",
                'set personal = {kind = "mimir"}, or set unlearning.fedgkt.gate = "classes"',
            )
        model = initial_student(self.init, context, self.network, self.name)
        for number in range(self.distil.rounds):
            task = replace(self.distil.task_at(number), aim="gated", gate=plan)
            mean = context.cohort.mean_update(context.remaining, task, {"model": model, **teachers})
            model = model + mean.delta.to(model.dtype)
            closed = not mean.delta.any()
            context.record_round(RoundRecord("unlearn", number, model, mean.loss, skipped=closed))
        return recover(context, model, self.recover)

    def _classes(self, context: UnlearningContext) -> tuple[int, ...]:
        """The leaving clients' classes, which the server and all remaining clients receive."""
        class_task = replace(self.distil.task_at(0), aim="classes")
        slots = {"model": context.original}
        report = context.cohort.mean_update(context.leaving, class_task, slots).delta
        return tuple(int(label) for label in report.nonzero())
