"""FedGKT: those who stay distil a student behind a gate that shuts the leaving client's images out.

Gated knowledge transfer (Chundawat et al. 2023) at every client that stays, as Mimir's authors
compare with it (paper 003, §VI-A3). Their gate goes by features and needs prompts; by classes, the
gate of the source works with every network, and shuts out classes that others hold, too. No
schedule lowers the rates. Where nothing passes, the source goes back to an earlier generator; here
it learns to pass. A round in which nothing did at any client is told as skipped: descriptors that
hardly differ make no features that do.
"""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from torch import Tensor, nn

from models.prompts import Prompted
from parties.common.errors import PolicyError
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.distillation import Gate
from parties.horizontal.methods.recover import recover
from parties.horizontal.methods.student import Begin, of_the_leaving, serving, student
from unlearning.guarantee import Guarantee

By: TypeAlias = Literal["features", "classes"]


@dataclass(frozen=True, slots=True)
class FedGkt:
    """Rounds of gated distillation at all clients that stay, then recovery.

    Attributes:
        distil: a round's lesson; its epochs are the generator's rounds.
        network: lends the names of its parameters.
        by: what the gate goes by.
        begin: where the student begins.
        peer: see ``Mimir``.
    """

    distil: Course
    recover: Course
    gate: Gate
    network: nn.Module
    by: By = "features"
    begin: Begin = "random"
    peer: str | None = None
    name: str = "fedgkt"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = False

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.distil.rounds + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``.

        Raises:
            PolicyError: the gate goes by features, and the networks have no prompts.
        """
        scene = serving(scene, self.peer)
        gate, told = self.gate, {"teacher": scene.original}
        if self.by == "classes":
            gate = replace(gate, classes=self._classes(scene))
        elif isinstance(self.network, Prompted):
            told["second"] = of_the_leaving(scene, self.distil.at(0))
        else:
            raise PolicyError(
                "fedgkt's gate goes by features of prompted networks",
                'personal = {kind = "mimir"}, or unlearning.fedgkt.by = "classes"',
            )
        model = student(self.begin, scene, self.network, self.name)
        for number in range(self.distil.rounds):
            lesson = replace(self.distil.at(number), aim="gated", gate=gate)
            mean = scene.cohort.mean(scene.staying, lesson, {"model": model, **told})
            model = model + mean.change.to(model.dtype)
            shut = not mean.change.any()
            scene.tell(Turn("unlearn", number, model, mean.loss, skipped=shut))
        return recover(scene, model, self.recover)

    def _classes(self, scene: Scene) -> tuple[int, ...]:
        """Those that the leaving client holds: the server and all who stay come to know them."""
        look = replace(self.distil.at(0), aim="classes")
        held = scene.cohort.mean(scene.leaving, look, {"model": scene.original}).change
        return tuple(int(label) for label in held.nonzero())
