"""FU-PGA: the leaving client climbs its loss within a ball; then those who stay recover.

Letters as in ``unlearning.horizontal.ball``. The leaving client's rows count as one client, also
where other rows of the same client stay.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal import ball

RANDOM = 10  # models whose distance gives the radius


@dataclass(frozen=True, slots=True)
class FuPga:
    """Projected ascent from the model without the client's last update.

    Attributes:
        last: the rounds of the training; the lesson of the last of them gives w_u.
        climb: the leaving client's lesson of one round, and how many.
        far: *squared* distance to w_u at which it stops, as in the authors' program.
    """

    last: Course
    climb: Course
    recover: Course
    far: float = 2.2
    name: str = "fu-pga"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.climb.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``.

        Raises:
            PolicyError: nobody stays, and without anybody there is no model to begin at.
        """
        gone, clients = len(scene.leaving), len(scene.leaving) + len(scene.staying)
        if not scene.staying:
            raise PolicyError(
                "fu-pga begins at the model of those who stay, and nobody does",
                "there must be rows that stay; otherwise begin a new federation",
            )
        lesson = self.last.at(max(0, self.last.rounds - 1))
        own = scene.cohort.mean(scene.leaving, lesson, {"model": scene.original})
        leaving = scene.original + own.change.to(scene.original.dtype)
        centre = ball.centre(scene.original, leaving, clients, gone)
        random = torch.stack([scene.fresh(f"{self.name} {k}") for k in range(RANDOM)])
        size, model = ball.radius(centre, random), centre
        for number in range(self.climb.rounds):
            lesson = self.climb.at(number)
            mean = scene.cohort.mean(scene.leaving, lesson, {"model": model})
            model = ball.within(model + mean.change.to(model.dtype), centre, size)
            scene.tell(Turn("unlearn", number, model, mean.loss))
            if ball.squared(model, leaving) > self.far:
                break
        return recover(scene, model, self.recover)
