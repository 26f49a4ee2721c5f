"""Retrain: a fresh model by those who stay; what every other way is measured by."""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.clusters import average
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Retrain:
    """The whole training again, for as many rounds as the original had.

    Attributes:
        groups: the clusters of the training; none: all learn together.
    """

    course: Course
    name: str = "retrain"
    groups: tuple[tuple[str, ...], ...] = ()
    guarantee: Guarantee = Guarantee.EXACT
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.course.rounds * max(1, len(self.groups))

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        fresh = scene.fresh(self.name)
        parts = [[m for m in scene.staying if m.client in group] for group in self.groups]
        scenes = [replace(scene, staying=part) for part in parts if part] or [scene]
        return average([recover(each, fresh, self.course) for each in scenes])
