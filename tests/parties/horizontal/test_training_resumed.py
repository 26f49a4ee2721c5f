"""A server that is killed in training resumes at the last stored round."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from clients import row_source
from five_clients import CONFIG, prepare
from test_request_metrics import InProcessWorkers
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
    """Simulates a kill of the server."""


class KilledCohort(PoolCohort):
    """Clients whose server is killed after ``remaining`` rounds."""

    remaining = 10**6
    rounds_done = 0

    def mean_update(
        self, members: Sequence[Member], task: LocalTask, slots: Mapping[str, Tensor]
    ) -> MeanUpdate:
        if self.remaining == 0:
            raise Killed
        self.remaining, self.rounds_done = self.remaining - 1, self.rounds_done + 1
        return super().mean_update(members, task, slots)


class RestartedServer:
    """Starts of a server in one folder."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir(exist_ok=True)
        self.config, options = prepare(folder, text)
        self.party = set_up_horizontal_party(self.config, "server", options, lambda _: None)
        self.source = row_source(folder / "wards.toml", (), None)

    def start(self, number: int, rounds: int = 10**6) -> tuple[TrainedModel, int]:
        """Return the trained model and the number of rounds of this start."""
        cohort = KilledCohort(self.config.agreement.spokes, self.source, InProcessWorkers(), 1.0)
        cohort.remaining = rounds
        record = RunJournal(self.party, federated_checkpoints(self.party), bytes([number]) * 16)

        def train() -> TrainedModel:
            cohort.switch_branch("line", None)
            task, rounds = (
                self.party.server_task(self.party),
                self.config.agreement.training.rounds,
            )
            members = [Member(name) for name in self.config.agreement.spokes]
            span = TrainingSpan(0, rounds, task.initial_model("original"), members)
            return train_rounds(self.party, task, cohort, record, span, "line")

        try:
            return record.once(TRAINING, TrainedModel, train), cohort.rounds_done
        finally:
            cohort.close()


@pytest.mark.parametrize("rule", ["", f", {ADAM}"])
def test_training_resumes_at_the_last_stored_round(tmp_path: Path, rule: str) -> None:
    text = LIMITS.replace("quorum = 0.5", f"quorum = 0.5{rule}")
    expected, rounds_done = RestartedServer(tmp_path / "whole", text).start(1)
    assert rounds_done == 3
    server = RestartedServer(tmp_path / "cut", text)
    with pytest.raises(Killed):
        server.start(1, 2)
    resumed, rounds_done = server.start(2)
    assert rounds_done == 1
    assert torch.equal(resumed.model, expected.model)
    assert resumed.rounds == expected.rounds
    finished, rounds_done = server.start(3)
    assert rounds_done == 0
    assert torch.equal(finished.model, expected.model)


def test_training_without_its_checkpoints_starts_again(tmp_path: Path) -> None:
    server = RestartedServer(tmp_path, LIMITS)
    with pytest.raises(Killed):
        server.start(1, 2)
    federated_checkpoints(server.party).clear()
    assert server.start(2)[1] == 3
