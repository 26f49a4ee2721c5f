"""FedEraser: replay the stored rounds without the client, calibrating the others' updates.

Letters as in ``unlearning.horizontal.erasing``: each stored update gives the length, a short lesson
from the model that is being rebuilt gives the direction.
"""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member, answers
from parties.horizontal.engine.rounds import Course
from parties.horizontal.engine.unlearning_context import Scene, Turn
from parties.horizontal.local.fisher import cut
from parties.horizontal.local.local_task import Learned
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.erasing import calibrated

Stored: TypeAlias = tuple[dict[str, Learned], list[Member]]  # updates, and whose are calibrated


@dataclass(frozen=True, slots=True)
class FedEraser:
    """One calibrated round for every stored one, then recovery.

    Attributes:
        calibrate: the short lesson; only its lesson is used.
        network: lends the shapes of the tensors, each of which is calibrated by itself.
    """

    calibrate: Course
    recover: Course
    network: nn.Module
    name: str = "federaser"
    guarantee: Guarantee = Guarantee.HEURISTIC
    single: bool = True

    @property
    def rounds(self) -> int | None:
        """See ``Method``: the history of the training decides."""
        return None

    def run(self, scene: Scene) -> Tensor:
        """See ``Method``."""
        if scene.history is None or not len(scene.history):
            raise PolicyError("federaser needs the history of the training", "history.every = 10")
        model: Tensor | None = None
        gone = {each.client for each in scene.leaving}
        for number, (began, stored) in enumerate(scene.history.rounds()):
            kept = {m.client: each for m, each in stored.items()}
            here = [each for each in scene.staying if each.client in kept]
            if model is None:
                # Nobody has learned anything yet: the first stored round needs no calibration. The
                # update of a client some of whose rows go is of these, too, and is left out.
                clean = [kept[each.client] for each in here if each.client not in gone]
                model = began + self._mean(clean) if clean else began
                continue
            if here:  # otherwise nobody who stays took part
                model = model + self._calibrated(scene, model, (kept, here), number)
            scene.tell(Turn("unlearn", number, model))
        if model is None:
            raise PolicyError("federaser found an empty history")
        return recover(scene, model, self.recover)

    def _calibrated(self, scene: Scene, model: Tensor, stored: Stored, number: int) -> Tensor:
        lesson, (kept, here) = self.calibrate.at(number), stored
        found = answers(scene.cohort, here, lesson, {"model": model})
        return self._mean([self._as_long(kept, m, each) for m, each in found])

    def _as_long(self, kept: dict[str, Learned], member: Member, found: Learned) -> Learned:
        pairs = zip(
            cut(kept[member.client].change, self.network), cut(found.change, self.network),
            strict=True,
        )  # fmt: skip
        change = [calibrated([old], [new])[0].flatten() for (*_, old), (*_, new) in pairs]
        return Learned(torch.cat(change), found.rows, found.loss, found.steps)

    def _mean(self, found: list[Learned]) -> Tensor:
        total = sum(each.rows for each in found)
        return sum((each.rows / total * each.change for each in found), 0 * found[0].change)
