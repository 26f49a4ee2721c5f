"""MoDe: mix in a model that those who stay train from scratch, and let all be guided by it.

Letters as in ``unlearning.horizontal.degradation``. The leaving client's rows are taught again with
the degradation model's own predictions; those who stay teach with true labels.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.methods.recover import recover
from parties.horizontal.rounds import Course
from parties.horizontal.scene import Scene, Turn
from unlearning.guarantee import Guarantee
from unlearning.horizontal.degradation import degraded


@dataclass(frozen=True, slots=True)
class MoDe:
    """Erasure and guidance by turns, then recovery.

    Attributes:
        degrade: training of the degradation model, a round of it before each of ours.
        guide: the lesson that follows.
        momentum: λ.
    """

    degrade: Course
    guide: Course
    recover: Course
    momentum: float = 0.95
    name: str = "mode"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        model, other, cohort = scene.original, scene.fresh(self.name), scene.cohort
        for number in range(self.guide.rounds):
            taught = cohort.mean(scene.staying, self.degrade.at(number), {"model": other})
            other = other + taught.change.to(other.dtype)
            model = degraded(model, other, self.momentum)
            lesson = self.guide.at(number)
            told = replace(lesson, aim="pseudo-labels")
            own = cohort.mean(scene.leaving, told, {"model": model, "teacher": other})
            theirs = cohort.mean(scene.staying, lesson, {"model": model})
            rows = own.rows + theirs.rows
            change = (own.rows * own.change + theirs.rows * theirs.change) / rows
            model = model + change.to(model.dtype)
            scene.tell(Turn("unlearn", number, model, theirs.loss))
        return recover(scene, model, self.recover)
