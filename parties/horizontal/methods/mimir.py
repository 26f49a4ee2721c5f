"""Mimir: those who stay distil a student from their own models and images that nobody took.

The leaving client hands over its descriptor once, to be forgotten with it. Shared prompts stay as
they are, and still know it (paper 003, C11): what is unlearned is backbone and head.
"""

from dataclasses import dataclass, replace

from torch import Tensor, nn

from models.prompts import Prompted
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.distillation import Distillation
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.student import Begin, of_the_leaving, serving, student
from unlearning.guarantee import Guarantee


@dataclass(frozen=True, slots=True)
class Mimir:
    """Rounds of distillation at all clients that stay, then recovery.

    Attributes:
        distil: a round's lesson; its epochs are the generator's rounds.
        network: lends the names of its parameters.
        begin: where the student begins.
        peer: the one client for whose model all this is; None: all that stay.
    """

    distil: Course
    recover: Course
    plan: Distillation
    network: nn.Module
    begin: Begin = "random"
    peer: str | None = None
    name: str = "mimir"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.distil.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``.

        Raises:
            PolicyError: the networks have no prompts.
        """
        if not isinstance(self.network, Prompted):
            raise PolicyError("mimir forgets prompted networks", 'personal = {kind = "mimir"}')
        scene = serving(scene, self.peer)
        leaving = of_the_leaving(scene, self.distil.at(0))
        teachers = {"teacher": scene.original, "second": leaving}
        model = student(self.begin, scene, self.network, self.name)
        for number in range(self.distil.rounds):
            lesson = replace(self.distil.at(number), aim="distil", distil=self.plan)
            mean = scene.cohort.mean(scene.staying, lesson, {"model": model, **teachers})
            model = model + mean.change.to(model.dtype)
            scene.tell(Turn("unlearn", number, model, mean.loss))
        return recover(scene, model, self.recover)
