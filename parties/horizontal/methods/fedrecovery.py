"""FedRecovery: take the leaving client's part of every stored round out of the model, add noise.

Letters as in ``unlearning.horizontal.recovery``. The noise is calibrated to the length of what was
taken out, a distance that is measured and not bounded beforehand: it promises nothing, so the level
is heuristic.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from parties.errors import PolicyError
from parties.horizontal.methods.recover import recover
from parties.horizontal.rounds import Course
from parties.horizontal.scene import Scene, Turn
from parties.schedule import torch_seed
from unlearning.guarantee import Guarantee
from unlearning.horizontal import recovery


@dataclass(frozen=True, slots=True)
class FedRecovery:
    """One step of the server alone, then plain recovery.

    Attributes:
        epsilon: ε of the noise; None adds none.
        beta: β.
    """

    recover: Course
    epsilon: float | None = None
    beta: float = 1e-5
    name: str = "fedrecovery"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    @property
    def rounds(self) -> int:
        """See ``Method``."""
        return 1 + self.recover.rounds

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        if scene.history is None or not len(scene.history):
            raise PolicyError("fedrecovery needs the history of the training", "history.every = 1")
        gone = {each.client for each in scene.leaving}
        residuals, squares = list[Tensor](), list[float]()
        for _, found in scene.history.rounds():
            names = [member.client for member in found]
            changes = torch.stack([each.change for each in found.values()])
            squares.append(float(changes.mean(dim=0).square().sum()))
            residuals.append(self._residual(names, changes, gone))
        shares = recovery.weights(torch.tensor(squares))
        # w̄ = w_t − Σ_i p_i δ_i; the stored changes are −η ∇f, so that here η is 1.
        taken = shares @ torch.stack(residuals)
        model = scene.original - taken
        if self.epsilon is not None:
            scale = recovery.noise_scale(self.epsilon, self.beta, float(taken.double().norm()))
            generator = torch.Generator().manual_seed(torch_seed(self.recover.seed, "fedrecovery"))
            model = model + scale * torch.randn(model.shape, generator=generator)
        scene.tell(Turn("unlearn", 0, model))
        return recover(scene, model, self.recover)

    def _residual(self, names: list[str], changes: Tensor, gone: set[str]) -> Tensor:
        here = [place for place, name in enumerate(names) if name in gone]
        if not here or len(here) == len(names):
            return torch.zeros_like(changes[0])
        return recovery.residual(-changes, here, 1.0)
