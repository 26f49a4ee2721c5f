"""EWC-SGA: the leaving client climbs its loss, held where the others' Fisher information is large.

Letters as in ``unlearning.horizontal.elastic``.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.methods.recover import recover
from parties.horizontal.rounds import Course
from parties.horizontal.scene import Scene, Turn
from unlearning.guarantee import Guarantee
from unlearning.horizontal.elastic import FLOOR


@dataclass(frozen=True, slots=True)
class EwcSga:
    """Ascent with an elastic penalty, then recovery.

    Attributes:
        climb: the lesson of one round; its ``proximal`` is λ.
    """

    climb: Course
    recover: Course
    name: str = "ewc-sga"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        look = replace(self.climb.at(0), aim="fisher")
        fisher = scene.cohort.mean(scene.staying, look, {"model": scene.original})
        fixed = {
            "anchor": scene.original,
            "fisher": fisher.change.to(scene.original.dtype).clamp_min(FLOOR),
        }
        model = scene.original
        for number in range(self.climb.rounds):
            slots = {"model": model, **fixed}
            mean = scene.cohort.mean(scene.leaving, self.climb.at(number), slots)
            model = model + mean.change.to(model.dtype)
            scene.tell(Turn("unlearn", number, model, mean.loss))
        return recover(scene, model, self.recover)
