"""FedForget: the leaving client is taught by two teachers, and weighs more in the mean.

Letters as in ``unlearning.horizontal.forgetting_teachers``. In its printed form both teachers know
the rows that must go (mode ``literal``); by default the second is a model of those who stay, which
began at random weights and never saw them. Its rounds are a short training of their own and part of
what the method takes.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.forgetting_teachers import Mode, client_weights, extra_weight


@dataclass(frozen=True, slots=True)
class FedForget:
    """Rounds in which all learn, the leaving client from its teachers, then recovery without it.

    Attributes:
        teach: the rounds; lesson of all.
        second: lessons that make teacher B: of those who stay, from random weights, or of the
            leaving client alone, from the original.
        keep: α, the weight of teacher A; of a bad teacher's mode none, for there A teaches the
            leaving client nothing, and what is kept the others' rounds keep.
        other: of teacher B.
        extra: λ₀, of the leaving client in the mean, fading by ``fade``; at most ``most`` of all.
    """

    teach: Course
    second: Course
    recover: Course
    mode: Mode = "clean_teacher"
    keep: float = 0.93
    other: float = 0.245
    extra: float = 2.0
    fade: float = 0.3
    most: float = 0.5
    temperature: float = 2.0
    name: str = "fedforget"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.teach.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        teachers = {"teacher": scene.original} | self._second(scene)
        model = scene.original
        for number in range(self.teach.rounds):
            lesson = self.teach.at(number)
            keep = 0.0 if self.mode == "bad_teacher" else self.keep
            told = replace(
                lesson, aim="teachers", mode=self.mode, weights=(keep, self.other),
                temperature=self.temperature,
            )  # fmt: skip
            slots = {"model": model}
            own = scene.cohort.mean(scene.leaving, told, slots | teachers)
            theirs = scene.cohort.mean(scene.staying, lesson, slots)
            extra = extra_weight(number, self.extra, self.fade)
            mine, others = client_weights([own.rows, theirs.rows], 0, extra, self.most)
            model = model + (mine * own.change + others * theirs.change).to(model.dtype)
            scene.tell(Turn("unlearn", number, model, theirs.loss))
        return recover(scene, model, self.recover)

    def _second(self, scene: Scene) -> dict[str, Tensor]:
        """Teacher B."""
        match self.mode:
            case "ga":
                return {}
            case "bad_teacher":
                return {"second": scene.fresh(self.name)}
            case "clean_teacher":
                members, model = scene.staying, scene.fresh(self.name)
            case _:
                members, model = scene.leaving, scene.original
        for number in range(self.second.rounds):
            mean = scene.cohort.mean(members, self.second.at(number), {"model": model})
            model = model + mean.change.to(torch.float32)
        return {"second": model}
