"""FedForget: two teachers guide the leaving client; its update has extra weight in the mean.

Notation as in ``unlearning.horizontal.fedforget``. In the algorithm as printed in the paper (mode
``literal``), both teachers were trained on the rows that must be forgotten. By default, the
remaining clients train teacher B from random weights, so teacher B was never trained on the rows
that must be forgotten. The training of teacher B is part of the method's cost.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.fedforget import TeacherMode, client_weights, leaving_client_factor


@dataclass(frozen=True, slots=True)
class FedForget:
    """Runs rounds with all clients, in which teachers guide the leaving client; then recovery.

    Attributes:
        distil: rounds with all clients.
        teacher_b: rounds that train teacher B, either by the remaining clients from random weights
            or by the leaving client alone from the original model.
        recover: rounds of recovery.
        mode: kind of teacher B: ``literal``, ``clean_teacher`` or ``bad_teacher``; with ``ga``,
            there is no teacher B.
        weight_a: α, the weight of teacher A, the original model. In mode ``bad_teacher``, teacher A
            has weight 0 instead.
        weight_b: the weight of teacher B.
        leaving_factor: λ₀, the factor by which the leaving client's weight in the mean is
            multiplied in the first round.
        decay: β; in round t, the leaving client's weight is multiplied by 1 + (λ₀ − 1) e^(−β t).
        max_weight: largest weight of the leaving client in the mean.
        temperature: τ.
    """

    distil: RoundPlan
    teacher_b: RoundPlan
    recover: RoundPlan
    mode: TeacherMode = "clean_teacher"
    weight_a: float = 0.93
    weight_b: float = 0.245
    leaving_factor: float = 2.0
    decay: float = 0.3
    max_weight: float = 0.5
    temperature: float = 2.0
    name: str = "fedforget"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = True

    @property
    def rounds(self) -> int:
        """Largest number of rounds that the method records."""
        return self.distil.rounds + self.recover.rounds

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``."""
        teachers = {"teacher": context.original} | self._teacher_b(context)
        model = context.original
        for number in range(self.distil.rounds):
            task = self.distil.task_at(number)
            weight_a = 0.0 if self.mode == "bad_teacher" else self.weight_a
            teacher_task = replace(
                task, aim="teachers", teacher_mode=self.mode,
                teacher_weights=(weight_a, self.weight_b), temperature=self.temperature,
            )  # fmt: skip
            slots = {"model": model}
            leaving = context.cohort.mean_update(context.leaving, teacher_task, slots | teachers)
            remaining = context.cohort.mean_update(context.remaining, task, slots)
            factor = leaving_client_factor(number, self.leaving_factor, self.decay)
            rows = [leaving.rows, remaining.rows]
            ours, theirs = client_weights(rows, 0, factor, self.max_weight)
            model = model + (ours * leaving.delta + theirs * remaining.delta).to(model.dtype)
            context.record_round(RoundRecord("unlearn", number, model, remaining.loss))
        return recover(context, model, self.recover)

    def _teacher_b(self, context: UnlearningContext) -> dict[str, Tensor]:
        """The slot ``second`` with teacher B, ``[d]``; empty if the mode has no teacher B."""
        match self.mode:
            case "ga":
                return {}
            case "bad_teacher":
                return {"second": context.initial_model(self.name)}
            case "clean_teacher":
                members, model = context.remaining, context.initial_model(self.name)
            case _:
                members, model = context.leaving, context.original
        for number in range(self.teacher_b.rounds):
            mean = context.cohort.mean_update(
                members, self.teacher_b.task_at(number), {"model": model}
            )
            model = model + mean.delta.to(torch.float32)
        return {"second": model}
