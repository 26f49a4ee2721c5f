"""SFU: the leaving client's ascent, without what would move the others' outputs.

Letters as in ``unlearning.horizontal.subspace``. The inputs of one batch cross from every client
that stays; that a random factor is said to hide them is not believed here, and none is used.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from parties.horizontal.cohort import answers
from parties.horizontal.learning.inspect import cut, layers
from parties.horizontal.methods.recover import recover
from parties.horizontal.rounds import Course
from parties.horizontal.scene import Scene, Turn
from unlearning.guarantee import Guarantee
from unlearning.horizontal.subspace import directions, outside


@dataclass(frozen=True, slots=True)
class Sfu:
    """Ascent outside the subspace of the others' inputs, then recovery.

    Attributes:
        network: lends its shapes.
        energy: ε, of the subspace.
    """

    climb: Course
    recover: Course
    network: nn.Module
    energy: float = 0.99
    name: str = "sfu"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        kept = self._subspaces(scene)
        model = scene.original
        for number in range(self.climb.rounds):
            lesson = self.climb.at(number)
            mean = scene.cohort.mean(scene.leaving, lesson, {"model": model})
            model = model + self._outside(mean.change.to(model.dtype), kept)
            scene.tell(Turn("unlearn", number, model, mean.loss))
        return recover(scene, model, self.recover)

    def _subspaces(self, scene: Scene) -> dict[nn.Module, Tensor]:
        """Of every layer the span of the staying clients' inputs, ``[width, k]``."""
        look = replace(self.climb.at(0), aim="inputs")
        told = [
            each.change
            for _, each in answers(scene.cohort, scene.staying, look, {"model": scene.original})
        ]
        widths = [_width(layer) for layer in layers(self.network)]
        parts = [torch.split(each.view(-1, sum(widths)), widths, dim=1) for each in told]
        return {
            layer: directions(torch.cat([part[place] for part in parts]).T, self.energy)
            for place, layer in enumerate(layers(self.network))
        }

    def _outside(self, change: Tensor, kept: dict[nn.Module, Tensor]) -> Tensor:
        found = []
        for module, name, part in cut(change, self.network):
            whole = module not in kept or name != "weight"
            flat = part.flatten(1) if not whole else part
            found.append((part if whole else outside(flat, kept[module])).flatten())
        return torch.cat(found)


def _width(layer: nn.Linear | nn.Conv2d) -> int:
    """Entries of one input of a layer."""
    return layer.weight[0].numel()
