"""FedMM: noise that the model gets most wrong impairs it, noise that it gets most right repairs it.

Error-maximising and -minimising noise (Chundawat et al. 2023; paper 003, §VI-A3) without anybody's
rows. Every client makes the noise against the original with what is its own, and for the classes
that it holds: the program of the source says class 0 for all that must go. So neither a descriptor
nor a class leaves its client. Federated, what impairs and what holds are two parts of a round and
not one shuffled batch, and every round has new noise. By default the repair is longer than the
source's one epoch, after which little was forgotten.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.student import serving
from unlearning.guarantee import Guarantee
from unlearning.horizontal.noise import Noise


@dataclass(frozen=True, slots=True)
class FedMm:
    """Rounds of all on noise, then rounds of those who stay on theirs.

    Attributes:
        share: of the leaving clients in a round that impairs.
        peer: see ``Mimir``.
    """

    impair: Course
    repair: Course
    noise: Noise
    share: float = 0.2
    peer: str | None = None
    name: str = "fedmm"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.impair.rounds + self.repair.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        scene = serving(scene, self.peer)
        model, teacher = scene.original, {"teacher": scene.original}
        for number in range(self.impair.rounds):
            best = replace(self.impair.at(number), aim="best-noise", noise=self.noise)
            worst, slots = replace(best, aim="worst-noise"), {"model": model, **teacher}
            own = scene.cohort.mean(scene.leaving, worst, slots)
            theirs = scene.cohort.mean(scene.staying, best, slots)
            change = self.share * own.change + (1 - self.share) * theirs.change
            model = model + change.to(model.dtype)
            scene.tell(Turn("unlearn", number, model, theirs.loss))
        best = replace(self.repair.lesson, aim="best-noise", noise=self.noise)
        return recover(scene, model, replace(self.repair, lesson=best), teacher)
