"""Loss-based unlearning in federated rounds: GradAscent, GradDiff, NPO, SimNPO and RMU.

In a round, clients with texts to forget minimise the method's objective on these texts and on
retained texts. If the other clients take part, they fine-tune on their own texts. The server
applies the mean update.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from torch import Tensor

from configs.language_unlearning import ServerRuleSettings
from models.server_optimisers import ServerOptimiser, optimiser_moments
from parties.common.shared_randomness import derive_key, permutation
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import AVERAGE, RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.engine.training_plan import server_rule
from parties.horizontal.local.local_task import LocalTask, Slots, TextTask
from parties.horizontal.methods.method import StagedMethod
from parties.horizontal.methods.recover import Recovery, TrainedState
from parties.language.methods.text_method import TextStages
from parties.requests.driver import StepResult

Participants = Literal["all", "leaving"]


class LossSettings(ServerRuleSettings, ABC):
    """Settings of a method that is defined by the objective of its local tasks."""

    @abstractmethod
    def text_task(self) -> TextTask:
        """Return the objective, with its settings."""


@dataclass(frozen=True, slots=True)
class LossBasedUnlearning(StagedMethod[TrainedState]):
    """An unlearning method that is defined by the objective of its local tasks."""

    name: str  # name in the config and in reports
    unlearn: RoundPlan  # plan of the unlearning rounds
    # Plan of the rounds after the unlearning, in which clients fine-tune on retained texts.
    recover: RoundPlan
    participants: Participants = "all"  # all clients, or only the clients with texts to forget
    # The server's optimiser in the rounds of unlearning, which applies the mean update. The rounds
    # of recovery continue with this optimiser, including its momentum and moments.
    rule: ServerOptimiser = AVERAGE
    state: ClassVar[type[TrainedState]] = TrainedState

    @classmethod
    def from_settings(cls, plan: LossSettings, rounds: TextStages) -> Self:
        """Build the method from its settings; the method has the name of its objective."""
        task = plan.text_task()
        return cls(
            task.objective,
            rounds(plan.unlearn, "unlearn", task),
            rounds(plan.recover, "recover"),
            plan.participants,
            server_rule(plan.rule) if plan.rule else AVERAGE,
        )

    def count(self, _run: HorizontalRun) -> int:
        """Return the number of rounds of unlearning."""
        return self.unlearn.rounds

    def round(self, run: HorizontalRun, state: TrainedState, k: int) -> StepResult[TrainedState]:
        """Run one round of unlearning."""
        task, members = self.unlearn.task_at(k), unlearning_members(run, self.participants)
        chosen = sample_members(self.unlearn, k, members, run.leaving)
        mean = run.mean_update(chosen, task, model_slots(run, state.model, task))
        change = mean.delta.to(state.model.dtype)
        model, rule = state.rule(self.rule).step(state.model, change)
        record = run.finish_round(RoundRecord("unlearn", k, model, mean.loss))
        return TrainedState(model, optimiser_moments(rule)), record

    def recovery(self, _run: HorizontalRun, state: TrainedState) -> Recovery:
        """Return the rounds of recovery, which continue with the server's optimiser."""
        return Recovery(replace(self.recover, rule=self.rule), state)


def unlearning_members(run: HorizontalRun, participants: Participants) -> Sequence[Member]:
    """Return the clients that take part in the unlearning, each as one ``Member``.

    A client with texts to forget takes part with these texts. The other clients, if they take part,
    use all their training texts.
    """
    if participants == "leaving":
        return run.leaving
    gone = {each.client for each in run.leaving}
    return [*run.leaving, *(each for each in run.remaining if each.client not in gone)]


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


def model_slots(run: HorizontalRun, model: Tensor, task: LocalTask) -> Slots:
    """Return the models ``[d]`` that ``task`` reads: ``model`` and, if needed, the original."""
    plan = task.text
    if plan is not None and plan.needs_reference:
        return {"model": model, "teacher": run.original}
    return {"model": model}
