"""EWC-SGA: the leaving client climbs its loss, held where the others' Fisher information is large.

Letters (Wu et al. 2022): F = diagonal Fisher information on the remaining clients' rows, θ_g = the
global model before, λ = the strength: −L_ce(D_u) + (λ/2) Σ F_i (θ_i − θ_g,i)² is descended. The
source climbs the penalty, too, which would push away from θ_g.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee

FLOOR = 1e-8  # of an entry of F


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

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.climb.rounds + self.recover.rounds

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
