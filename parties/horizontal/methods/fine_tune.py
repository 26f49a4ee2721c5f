"""Drop the client and fine-tune, a baseline: those who stay train on, and nothing pushes out."""

from dataclasses import dataclass

from torch import Tensor

from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class FineTune:
    """A row that every table needs: it beats several ways that are more work."""

    course: Course
    name: str = "fine-tune"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.course.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        return recover(scene, scene.original, self.course)
