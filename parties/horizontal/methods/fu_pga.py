"""FU-PGA: the leaving client climbs its loss within a ball; then those who stay recover.

Letters as in ``unlearning.horizontal.ball``.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from parties.horizontal.methods.recover import recover
from parties.horizontal.rounds import Course
from parties.horizontal.scene import Scene, Turn
from unlearning.guarantee import Guarantee
from unlearning.horizontal import ball

RANDOM = 10  # models whose distance gives the radius


@dataclass(frozen=True, slots=True)
class FuPga:
    """Projected ascent from the model without the client's last update.

    Attributes:
        last: the lesson that the leaving client learned last; it gives w_u.
        climb: its lesson of one round, and how many.
        far: distance to w_u at which it stops.
    """

    last: Course
    climb: Course
    recover: Course
    far: float = 2.2
    name: str = "fu-pga"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        clients = len({each.client for each in (*scene.leaving, *scene.staying)})
        own = scene.cohort.mean(scene.leaving, self.last.at(0), {"model": scene.original})
        leaving = scene.original + own.change.to(scene.original.dtype)
        centre = ball.centre(scene.original, leaving, clients)
        random = torch.stack([scene.fresh(f"{self.name} {k}") for k in range(RANDOM)])
        size, model = ball.radius(centre, random), centre
        for number in range(self.climb.rounds):
            lesson = self.climb.at(number)
            mean = scene.cohort.mean(scene.leaving, lesson, {"model": model})
            model = ball.within(model + mean.change.to(model.dtype), centre, size)
            scene.tell(Turn("unlearn", number, model, mean.loss))
            if float((model - leaving).norm()) > self.far:
                break
        return recover(scene, model, self.recover)
