"""MoDe: mix in a model that those who stay train from scratch, and let all be guided by it.

Letters as in ``unlearning.horizontal.degradation``. The leaving client's rows are taught again with
the degradation model's own predictions; those who stay teach with true labels.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.degradation import degraded


@dataclass(frozen=True, slots=True)
class MoDe:
    """Erasure and guidance by turns, then recovery.

    Attributes:
        degrade: rounds that train the degradation model and mix it in.
        guide: rounds of guidance, each after one of those as long as there are any.
        momentum: λ.
    """

    degrade: Course
    guide: Course
    recover: Course
    momentum: float = 0.95
    name: str = "mode"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return max(self.degrade.rounds, self.guide.rounds) + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        model, other = scene.original, scene.fresh(self.name)
        for number in range(max(self.degrade.rounds, self.guide.rounds)):
            loss: float | None = None
            if number < self.degrade.rounds:
                lesson = self.degrade.at(number)
                taught = scene.cohort.mean(scene.staying, lesson, {"model": other})
                other = other + taught.change.to(other.dtype)
                model = degraded(model, other, self.momentum)
            if number < self.guide.rounds:
                model, loss = self._guided(scene, model, other, self.guide.at(number))
            scene.tell(Turn("unlearn", number, model, loss))
        return recover(scene, model, self.recover)

    def _guided(
        self, scene: Scene, model: Tensor, other: Tensor, lesson: Lesson
    ) -> tuple[Tensor, float]:
        """The model after a round of all, and the loss of those who stay."""
        told = replace(lesson, aim="pseudo-labels")
        own = scene.cohort.mean(scene.leaving, told, {"model": model, "teacher": other})
        theirs = scene.cohort.mean(scene.staying, lesson, {"model": model})
        rows = own.rows + theirs.rows
        change = (own.rows * own.change + theirs.rows * theirs.change) / rows
        return model + change.to(model.dtype), theirs.loss
