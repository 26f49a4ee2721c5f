"""FedEraser: repeat the stored training rounds with calibrated updates of remaining clients.

Notation as in ``unlearning.horizontal.baselines``. A calibrated update has the length of the stored
update. A short local training, which starts from the rebuilt model, determines the direction of the
calibrated update.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

import torch
from torch import Tensor, nn

from configs.client_unlearning import (
    ClientMethodSettings,
    LocalTrainingSettings,
    Reads,
    StageSettings,
)
from configs.horizontal import HorizontalAgreement
from parties.common.errors import PolicyError
from parties.horizontal.engine.cohort import Member, quorum_updates
from parties.horizontal.engine.history import History
from parties.horizontal.engine.rounds import RoundPlan
from parties.horizontal.engine.run import HorizontalRun, RoundRecord
from parties.horizontal.local.fisher import split_by_layer
from parties.horizontal.local.local_task import LocalUpdate
from parties.horizontal.methods.method import ModelState, StagedMethod, Stages
from parties.report.method_names import Label
from parties.requests.driver import Needs, StepResult
from unlearning.horizontal.baselines import calibrated_update

StoredUpdates: TypeAlias = tuple[
    dict[str, LocalUpdate], list[Member]
]  # updates, and members to calibrate


class FedEraserSettings(ClientMethodSettings):
    """FedEraser (Liu et al. 2021); needs saved updates, so history.every must be above 0."""

    # Local training in the calibration, which has one round for every saved round.
    calibrate: LocalTrainingSettings = LocalTrainingSettings()
    recover: StageSettings = StageSettings(rounds=0)  # rounds of recovery

    def check(self, agreement: HorizontalAgreement) -> None:
        """Check that the updates of all rounds are saved, and that the server adds them unchanged.

        A request deletes the saved updates of its clients. A client that keeps other rows would be
        missing in the model that a later request rebuilds.

        Raises:
            ValueError: a rule is broken; the message names the key to change.
        """
        agreement.require_history("federaser")
        if part := next((each for each in agreement.unlearn[:-1] if each.leaver is None), None):
            raise ValueError(
                f"federaser cannot be used after the request {part.name!r}, which deletes the "
                "saved updates of clients that keep other rows: make it the last request, let it "
                "name a whole client, or choose another method"
            )


@dataclass(frozen=True, slots=True)
class FedEraser(StagedMethod[ModelState]):
    """Runs one calibrated round for each stored round, and then the rounds of recovery."""

    calibrate: RoundPlan  # settings of the short local training
    recover: RoundPlan  # rounds of recovery
    # A network that defines the shapes of the tensors; the update of each tensor is calibrated
    # separately.
    network: nn.Module
    name: str = "federaser"
    label: ClassVar = Label("FedEraser", "stored rounds, calibrated without the client")
    settings: ClassVar = FedEraserSettings
    reads: ClassVar[Reads] = "each update"

    @classmethod
    def from_settings(cls, plan: FedEraserSettings, rounds: Stages) -> Self:
        """Build the method from its settings."""
        calibrate = rounds(plan.calibrate, "calibrate")
        return cls(calibrate, rounds(plan.recover, "recover"), rounds.network())

    def needs(self, _agreement: object) -> Needs:
        """Return that the method needs the stored rounds."""
        return Needs(history=True)

    def count(self, run: HorizontalRun) -> int:
        """Return the number of stored rounds after the first one."""
        return len(_history(run)) - 1

    def init(self, run: HorizontalRun) -> ModelState:
        """Return the model after the first stored round, without the leaving clients.

        No client has influenced the model before the first stored round, so that round needs no
        calibration. A client that leaves with a part of its rows is left out: its stored update is
        of all its rows.

        Raises:
            PolicyError: no rounds of the training are stored.
        """
        gone = {each.client for each in run.leaving}
        began, stored = _history(run).read(0)
        kept, here = _remaining(run, stored)
        clean = [kept[each.client] for each in here if each.client not in gone]
        return ModelState(began + self._mean(clean) if clean else began)

    def round(self, run: HorizontalRun, state: ModelState, k: int) -> StepResult[ModelState]:
        """Repeat one stored round with calibrated updates."""
        number, model = k + 1, state.model
        kept, here = _remaining(run, _history(run).read(number)[1])
        if here:  # otherwise no remaining client took part in this round
            model = model + self._calibrated(run, model, (kept, here), number)
        return ModelState(model), run.finish_round(RoundRecord("unlearn", number, model))

    def _calibrated(
        self, run: HorizontalRun, model: Tensor, stored: StoredUpdates, number: int
    ) -> Tensor:
        task, (kept, here) = self.calibrate.task_at(number), stored
        found = quorum_updates(run, here, task, {"model": model})
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


def _history(run: HorizontalRun) -> History:
    """The stored rounds; raises ``PolicyError`` if no round is stored."""
    if run.history is None or not len(run.history):
        raise PolicyError(
            "the method 'federaser' needs stored training rounds, but no round is stored",
            "set history.every = 10",
        )
    return run.history


def _remaining(run: HorizontalRun, stored: Mapping[Member, LocalUpdate]) -> StoredUpdates:
    """The stored updates of a round by client, and the remaining members that took part in it."""
    kept = {member.client: each for member, each in stored.items()}
    return kept, [each for each in run.remaining if each.client in kept]
