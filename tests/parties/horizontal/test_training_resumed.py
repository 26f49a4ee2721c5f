"""A server that is killed in training goes on from the last round that was written."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from clients import row_source
from five_clients import CONFIG, prepared
from test_figures import Here
from torch import Tensor

from parties.horizontal.engine.cohort import MeanUpdate, Member
from parties.horizontal.engine.run_journal import RunJournal, federated_checkpoints
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.server import TRAINING, TrainedModel, TrainingSpan, train_rounds
from parties.horizontal.setup import set_up_horizontal_party
from parties.horizontal.simulation.pool import PoolCohort

ADAM = 'rule = { kind = "fedadam", rate = 0.01 }'
LIMITS = CONFIG.replace("idle_seconds = 10.0", "idle_seconds = 10.0, checkpoint_seconds = 0.0")


class Killed(Exception):
    """The server is gone."""


class Dying(PoolCohort):
    """Clients whose server is killed after so many rounds."""

    left = 10**6
    taught = 0

    def mean_update(
        self, members: Sequence[Member], task: LocalTask, slots: Mapping[str, Tensor]
    ) -> MeanUpdate:
        if self.left == 0:
            raise Killed
        self.left, self.taught = self.left - 1, self.taught + 1
        return super().mean_update(members, task, slots)


class Trial:
    """Starts of a server in one folder."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir(exist_ok=True)
        self.config, place = prepared(folder, text)
        self.party = set_up_horizontal_party(self.config, "server", place, lambda _: None)
        self.source = row_source(folder / "wards.toml", (), None)

    def start(self, number: int, rounds: int = 10**6) -> tuple[TrainedModel, int]:
        """What is trained, and in how many rounds of this start."""
        cohort = Dying(self.config.agreement.spokes, self.source, Here(), 1.0)
        cohort.left = rounds
        record = RunJournal(self.party, federated_checkpoints(self.party), bytes([number]) * 16)

        def work() -> TrainedModel:
            cohort.switch_branch("line", None)
            taught, rounds = (
                self.party.server_task(self.party),
                self.config.agreement.training.rounds,
            )
            members = [Member(name) for name in self.config.agreement.spokes]
            span = TrainingSpan(0, rounds, taught.initial_model("original"), members)
            return train_rounds(self.party, taught, cohort, record, span, "line")

        try:
            return record.once(TRAINING, TrainedModel, work), cohort.taught
        finally:
            cohort.close()


@pytest.mark.parametrize("rule", ["", f", {ADAM}"])
def test_training_goes_on_where_it_was_written(tmp_path: Path, rule: str) -> None:
    text = LIMITS.replace("quorum = 0.5", f"quorum = 0.5{rule}")
    wanted, taught = Trial(tmp_path / "whole", text).start(1)
    assert taught == 3
    trial = Trial(tmp_path / "cut", text)
    with pytest.raises(Killed):
        trial.start(1, 2)
    found, taught = trial.start(2)
    assert taught == 1
    assert torch.equal(found.model, wanted.model)
    assert found.rounds == wanted.rounds
    again, taught = trial.start(3)
    assert taught == 0
    assert torch.equal(again.model, wanted.model)


def test_with_own_parameters_it_begins_again(tmp_path: Path) -> None:
    """Clients' own have gone on since the server wrote: a second try must equal a first one."""
    trial = Trial(
        tmp_path,
        LIMITS.replace("[settings.server]", 'personal = { kind = "fedper" }\n[settings.server]'),
    )
    with pytest.raises(Killed):
        trial.start(1, 2)
    assert trial.start(2)[1] == 3


def test_a_killed_training_that_is_begun_afresh_keeps_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path, LIMITS)
    with pytest.raises(Killed):
        trial.start(1, 2)
    federated_checkpoints(trial.party).clear()
    assert trial.start(2)[1] == 3
