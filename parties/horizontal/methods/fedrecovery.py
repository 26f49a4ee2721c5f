"""FedRecovery: take the leaving client's part of every stored round out of the model, add noise.

Letters as in ``unlearning.horizontal.recovery``. The noise is calibrated to the length of what was
taken out, a distance that is measured and not bounded beforehand: it promises nothing, so the level
is heuristic.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from parties.common.errors import PolicyError
from parties.common.shared_randomness import normals
from parties.horizontal.engine.cohort import Member
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.local_task import Learned
from parties.horizontal.methods.recover import recover
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
        squares = torch.tensor([_square(found) for _, found in scene.history.rounds()])
        # w̄ = w_t − Σ_i p_i δ_i; the stored changes are −η ∇f, so that here η is 1.
        taken = torch.zeros_like(scene.original)
        shares = recovery.weights(squares)
        for share, (_, found) in zip(shares, scene.history.rounds(), strict=True):
            taken += share * _residual(found, gone)
        model = scene.original - taken
        if self.epsilon is not None:
            scale = recovery.noise_scale(self.epsilon, self.beta, float(taken.double().norm()))
            # Clients know the agreement's seed, and torch's generators have 32 bits of their own.
            noise = torch.from_numpy(normals(scene.secret(), len(model)))
            model = model + (scale * noise).to(model.dtype)
        scene.tell(Turn("unlearn", 0, model))
        return recover(scene, model, self.recover)


def _changes(found: Mapping[Member, Learned]) -> Tensor:
    """What the clients of a round learned, ``[clients, d]``."""
    return torch.stack([each.change for each in found.values()])


def _square(found: Mapping[Member, Learned]) -> float:
    """The squared length of the mean change."""
    return float(_changes(found).mean(dim=0).square().sum())


def _residual(found: Mapping[Member, Learned], gone: set[str]) -> Tensor:
    """What those who leave did in a round, ``[d]``."""
    changes = _changes(found)
    here = [place for place, member in enumerate(found) if member.client in gone]
    if not here or len(here) == len(found):
        return torch.zeros_like(changes[0])
    return recovery.residual(-changes, here, 1.0)
