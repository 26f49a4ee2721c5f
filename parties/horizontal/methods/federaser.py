"""FedEraser: repeat the stored training rounds with calibrated updates of remaining clients.

Notation as in ``unlearning.horizontal.baselines``. A calibrated update has the length of the stored
update. A short local training, which starts from the rebuilt model, determines the direction of the
calibrated update.
"""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member, quorum_updates
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.unlearning_context import RoundRecord, UnlearningContext
from parties.horizontal.local.fisher import split_by_layer
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.methods.recover import recover
from unlearning.guarantee import Guarantee
from unlearning.horizontal.baselines import calibrated_update

StoredUpdates: TypeAlias = tuple[
    dict[str, LocalUpdate], list[Member]
]  # updates, and members to calibrate


@dataclass(frozen=True, slots=True)
class FedEraser:
    """Runs one calibrated round for each stored round, and then the rounds of recovery.

    Attributes:
        calibrate: settings of the short local training.
        recover: rounds of recovery.
        network: a network that defines the shapes of the tensors; the update of each tensor is
            calibrated separately.
    """

    calibrate: RoundPlan
    recover: RoundPlan
    network: nn.Module
    name: str = "federaser"
    guarantee: Guarantee = Guarantee.HEURISTIC
    needs_single_updates: bool = True

    @property
    def rounds(self) -> int | None:
        """Always None: the number of rounds depends on how many training rounds are stored."""
        return None

    def run(self, context: UnlearningContext) -> Tensor:
        """Return the unlearned model, ``[d]``.

        Raises:
            PolicyError: no rounds of the training are stored.
        """
        if context.history is None or not len(context.history):
            raise PolicyError(
                "the method 'federaser' needs stored training rounds, but no round is stored",
                "set history.every = 10",
            )
        model: Tensor | None = None
        gone = {each.client for each in context.leaving}
        for number, (began, stored) in enumerate(context.history.rounds()):
            kept = {m.client: each for m, each in stored.items()}
            here = [each for each in context.remaining if each.client in kept]
            if model is None:
                # No client has influenced the model before the first stored round, so that round
                # needs no calibration. A client that leaves with a part of its rows is left out:
                # its stored update is of all its rows.
                clean = [kept[each.client] for each in here if each.client not in gone]
                model = began + self._mean(clean) if clean else began
                continue
            if here:  # otherwise no remaining client took part in this round
                model = model + self._calibrated(context, model, (kept, here), number)
            context.record_round(RoundRecord("unlearn", number, model))
        if model is None:
            raise PolicyError(
                "the method 'federaser' needs stored training rounds, but no round is stored"
            )
        return recover(context, model, self.recover)

    def _calibrated(
        self, context: UnlearningContext, model: Tensor, stored: StoredUpdates, number: int
    ) -> Tensor:
        task, (kept, here) = self.calibrate.task_at(number), stored
        found = quorum_updates(context.cohort, here, task, {"model": model})
        return self._mean([self._as_long(kept, m, each) for m, each in found])

    def _as_long(
        self, kept: dict[str, LocalUpdate], member: Member, found: LocalUpdate
    ) -> LocalUpdate:
        stored = split_by_layer(kept[member.client].delta, self.network)
        pairs = zip(stored, split_by_layer(found.delta, self.network), strict=True)
        change = [calibrated_update([old], [new])[0].flatten() for (*_, old), (*_, new) in pairs]
        return LocalUpdate(torch.cat(change), found.rows, found.loss, found.steps)

    def _mean(self, found: list[LocalUpdate]) -> Tensor:
        total = sum(each.rows for each in found)
        return sum((each.rows / total * each.delta for each in found), 0 * found[0].delta)
