"""Loss-based unlearning in federated rounds: GradAscent, GradDiff, NPO, SimNPO and RMU.

In a round, clients with texts to forget minimise the method's objective on these texts and on
retained texts. If the other clients take part, they fine-tune on their own texts. The server
applies the mean update.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from models.server_optimisers import ServerOptimiser
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import AVERAGE, RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.local_task import LocalTask, Slots
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee

Participants = Literal["all", "leaving"]


@dataclass(frozen=True, slots=True)
class LossBasedUnlearning:
    """An unlearning method that is defined by the objective of its local tasks.

    Attributes:
        name: name in the config and in reports.
        unlearn: plan of the unlearning rounds.
        recover: plan of the rounds after the unlearning, in which clients fine-tune on retained
            texts.
        participants: all clients, or only the clients with texts to forget.
        rule: the server's optimiser in the rounds of unlearning, which applies the mean update. The
            rounds of recovery continue with this optimiser, including its momentum and moments.
        guarantee: how strong the method's guarantee is, such as exact or heuristic.
        needs_single_updates: whether the method reads updates of single clients.
    """

    name: str
    unlearn: RoundPlan
    recover: RoundPlan
    participants: Participants = "all"
    rule: ServerOptimiser = AVERAGE
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = False

    @property
    def rounds(self) -> int:
        """Number of rounds, including the rounds of recovery."""
        return self.unlearn.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        model, rule = context.original, self.rule
        members = unlearning_members(context, self.participants)
        for number in range(self.unlearn.rounds):
            task = self.unlearn.task_at(number)
            slots = model_slots(context, model, task)
            chosen = sample_members(self.unlearn, number, members, context.leaving)
            mean = context.cohort.mean_update(chosen, task, slots)
            model, rule = rule.step(model, mean.delta.to(model.dtype))
            context.record_round(RoundRecord("unlearn", number, model, mean.loss))
        return recover(context, model, replace(self.recover, rule=rule))


def unlearning_members(context: UnlearningContext, participants: Participants) -> Sequence[Member]:
    """Return the clients that take part in the unlearning, each as one ``Member``.

    A client with texts to forget takes part with these texts. The other clients, if they take part,
    use all their training texts.
    """
    if participants == "leaving":
        return context.leaving
    gone = {each.client for each in context.leaving}
    return [*context.leaving, *(each for each in context.remaining if each.client not in gone)]


def sample_members(
    round_plan: RoundPlan, number: int, members: Sequence[Member], leaving: Sequence[Member]
) -> list[Member]:
    """Sample the members of a round; at least one of these members has texts to forget.

    If the plan samples no member with texts to forget, one sampled member is replaced by a member
    with texts to forget; both are chosen at random.
    """
    chosen = round_plan.select_members(members, number)
    if set(chosen).isdisjoint(leaving):
        secret = derive_key(round_plan.seed, "leaving", round_plan.task.stream, number)
        out, into = permutation(secret, len(chosen))[0], permutation(secret, len(leaving))[0]
        chosen[out] = leaving[into]
        chosen.sort()
    return chosen


def model_slots(context: UnlearningContext, model: Tensor, task: LocalTask) -> Slots:
    """Return the models ``[d]`` that ``task`` reads: ``model`` and, if needed, the original."""
    plan = task.text
    if plan is not None and plan.needs_reference:
        return {"model": model, "teacher": context.original}
    return {"model": model}
