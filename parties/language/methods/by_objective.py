"""Unlearning by an objective: the released programs' methods, in rounds of a federation.

In a round those who hold forgotten texts descend the method's objective on them beside texts that
stay, and, unless they are alone in it, the others learn theirs; the server takes the mean's step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from models.server_optimisers import ServerOptimiser
from parties.common.shared_randomness import key, permutation
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import AVERAGE, Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Lesson, Slots
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee

Who = Literal["all", "leaving"]


@dataclass(frozen=True, slots=True)
class ByObjective:
    """GradAscent, GradDiff, NPO, SimNPO and RMU.

    Attributes:
        rule: of the server in the rounds that unlearn; its memory goes on into those that recover.
    """

    name: str
    unlearn: Course
    recover: Course
    who: Who = "all"
    rule: ServerOptimiser = AVERAGE
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.unlearn.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        model, rule = scene.original, self.rule
        for number in range(self.unlearn.rounds):
            lesson = self.unlearn.at(number)
            slots = slots_of(scene, model, lesson)
            chosen = drawn(self.unlearn, number, members(scene, self.who), scene.leaving)
            mean = scene.cohort.mean(chosen, lesson, slots)
            model, rule = rule.step(model, mean.change.to(model.dtype))
            scene.tell(Turn("unlearn", number, model, mean.loss))
        return recover(scene, model, replace(self.recover, rule=rule))


def members(scene: Scene, who: Who) -> Sequence[Member]:
    """Who takes part: each client once, with its forgotten texts if it has any."""
    if who == "leaving":
        return scene.leaving
    gone = {each.client for each in scene.leaving}
    return [*scene.leaving, *(each for each in scene.staying if each.client not in gone)]


def drawn(
    course: Course, number: int, those: Sequence[Member], leaving: Sequence[Member]
) -> list[Member]:
    """Who of them takes part in a round; one of the leaving, in place of another, at least."""
    chosen = course.chosen(those, number)
    if set(chosen).isdisjoint(leaving):
        drawn_by = key(course.seed, "leaving", course.lesson.stream, number)
        out, into = permutation(drawn_by, len(chosen))[0], permutation(drawn_by, len(leaving))[0]
        chosen[out] = leaving[into]
        chosen.sort()
    return chosen


def slots_of(scene: Scene, model: Tensor, lesson: Lesson) -> Slots:
    """The model, and beside it that before unlearning where the objective looks at it."""
    plan = lesson.text
    if plan is not None and plan.looks_back:
        return {"model": model, "teacher": scene.original}
    return {"model": model}
