"""AdaClipping-like: the server dampens what the leaving client needs more than those who stay."""

from dataclasses import dataclass

from torch import Tensor

from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.dampening import dampened


@dataclass(frozen=True, slots=True)
class AdaClipping:
    """One step of the server, then recovery.

    Attributes:
        look: the lesson that asks for Fisher information.
        ratio: how many times more the leaving client must need a parameter.
        strength: λ.
    """

    look: Lesson
    recover: Course
    ratio: float = 10.0
    strength: float = 1.0
    name: str = "adaclipping-like"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return 1 + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        slots, dtype = {"model": scene.original}, scene.original.dtype
        own = scene.cohort.mean(scene.leaving, self.look, slots).change.to(dtype)
        others = scene.cohort.mean(scene.staying, self.look, slots).change.to(dtype)
        model = dampened(scene.original, own, others, self.ratio, self.strength)
        scene.tell(Turn("unlearn", 0, model))
        return recover(scene, model, self.recover)
