"""SFU: the leaving client's ascent, without what would move the others' outputs.

Letters as in ``unlearning.horizontal.subspace``. Weight and bias of a layer are projected together,
and parameters that are no layer's, as of a normalisation, stay as they are. The inputs of one batch
cross from every client that stays, of convolutions a sample of their patches: outputs on other rows
do move. That a random factor is said to hide the inputs is not believed here, and none is used.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from parties.horizontal.engine.cohort import answers
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.fisher import cut, layers
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.subspace import directions, outside, with_ones


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

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return self.climb.rounds + self.recover.rounds

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
        """Of every layer the span of the staying clients' inputs, and of 1 beside a bias."""
        look = replace(self.climb.at(0), aim="inputs")
        told = [
            each.change
            for _, each in answers(scene.cohort, scene.staying, look, {"model": scene.original})
        ]
        widths = [_width(layer) for layer in layers(self.network)]
        parts = [torch.split(each.view(-1, sum(widths)), widths, dim=1) for each in told]
        found = dict[nn.Module, Tensor]()
        for place, layer in enumerate(layers(self.network)):
            columns = torch.cat([part[place] for part in parts]).T
            joint = columns if layer.bias is None else with_ones(columns)
            found[layer] = directions(joint, self.energy)
        return found

    def _outside(self, change: Tensor, kept: dict[nn.Module, Tensor]) -> Tensor:
        """What of a change moves none of those inputs' outputs; what is no layer's would."""
        found = torch.zeros_like(change)
        parts, moved = ({(m, name): part for m, name, part in cut(vector, self.network)}
                        for vector in (change, found))  # fmt: skip
        for layer, basis in kept.items():
            weight, bias = parts[layer, "weight"], parts.get((layer, "bias"))
            flat = weight.flatten(1)
            joint = outside(flat if bias is None else torch.cat([flat, bias[:, None]], 1), basis)
            moved[layer, "weight"].copy_(joint[:, : flat.shape[1]].view_as(weight))
            if bias is not None:
                moved[layer, "bias"].copy_(joint[:, -1])
        return found


def _width(layer: nn.Linear | nn.Conv2d) -> int:
    """Entries of one input of a layer."""
    return layer.weight[0].numel()
