"""Mimir: the remaining clients distil a student from their own models and generated images.

The leaving client sends its descriptor to the server once, and the descriptor is deleted
afterwards. Only backbone and head are unlearned. The shared prompt parameters do not change, so
these parameters still contain information about the leaving client (paper 003: Mimir).
"""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from models.prompts import PromptedNetwork
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import DistillationPlan
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.student import (
    StudentInit,
    for_target_client,
    initial_student,
    leaving_client_model,
)
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Mimir:
    """Runs rounds of distillation at all remaining clients, then recovery.

    Attributes:
        distil: plan of the distillation rounds; in each of these rounds, every client trains a
            generator and the student in turn, ``epochs`` times.
        recover: plan of the recovery rounds.
        plan: weights of the losses.
        network: a network whose parameters have the names that the model's parameters have.
        init: initial parameters of the student.
        target_client: the only client whose model is unlearned; None: the models of all remaining
            clients are unlearned.
    """

    distil: RoundPlan
    recover: RoundPlan
    plan: DistillationPlan
    network: nn.Module
    init: StudentInit = "random"
    target_client: str | None = None
    name: str = "mimir"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = True

    @property
    def rounds(self) -> int:
        """The maximum number of rounds that the method adds to the record of a run."""
        return self.distil.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``.

        Raises:
            PolicyError: the network has no prompts.
        """
        if not isinstance(self.network, PromptedNetwork):
            raise PolicyError(
                "mimir needs a network with prompts, but the agreed network has no prompts",
                'set personal = {kind = "mimir"}',
            )
        context = for_target_client(context, self.target_client)
        leaving = leaving_client_model(context, self.distil.task_at(0))
        teachers = {"teacher": context.original, "second": leaving}
        model = initial_student(self.init, context, self.network, self.name)
        for number in range(self.distil.rounds):
            task = replace(self.distil.task_at(number), aim="distil", distil=self.plan)
            mean = context.cohort.mean_update(context.remaining, task, {"model": model, **teachers})
            model = model + mean.delta.to(model.dtype)
            context.record_round(RoundRecord("unlearn", number, model, mean.loss))
        return recover(context, model, self.recover)
