"""A server that is killed in training goes on from the last round that was written."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch
from five_clients import CONFIG, prepared
from test_figures import Here
from torch import Tensor

from parties.horizontal.engine.cohort import Mean, Member
from parties.horizontal.local.local_task import Lesson
from parties.horizontal.record import Record, checkpoints
from parties.horizontal.setup import take_horizontal_seat
from parties.horizontal.simulation.pool import PoolCohort
from parties.horizontal.simulation.simulated_data import Source
from parties.horizontal.tasks import subject
from parties.horizontal.train import NAME, Span, Trained, train

ADAM = 'rule = { kind = "fedadam", rate = 0.01 }'
LIMITS = CONFIG.replace("idle_seconds = 10.0", "idle_seconds = 10.0, checkpoint_seconds = 0.0")


class Killed(Exception):
    """The server is gone."""


class Dying(PoolCohort):
    """Clients whose server is killed after so many rounds."""

    left = 10**6
    taught = 0

    def mean(self, members: Sequence[Member], lesson: Lesson, slots: Mapping[str, Tensor]) -> Mean:
        if self.left == 0:
            raise Killed
        self.left, self.taught = self.left - 1, self.taught + 1
        return super().mean(members, lesson, slots)


class Trial:
    """Starts of a server in one folder."""

    def __init__(self, folder: Path, text: str) -> None:
        folder.mkdir(exist_ok=True)
        self.config, place = prepared(folder, text)
        self.party = take_horizontal_seat(self.config, "server", place, lambda _: None)
        self.source = Source(folder / "wards.toml", (), None)

    def start(self, number: int, rounds: int = 10**6) -> tuple[Trained, int]:
        """What is trained, and in how many rounds of this start."""
        cohort = Dying(self.config.agreement.spokes, self.source, Here(), 1.0)
        cohort.left = rounds
        record = Record(self.party, checkpoints(self.party), bytes([number]) * 16)

        def work() -> Trained:
            cohort.follow("line", None)
            taught, rounds = subject(self.party), self.config.agreement.training.rounds
            members = [Member(name) for name in self.config.agreement.spokes]
            span = Span(0, rounds, taught.fresh("original"), members)
            return train(self.party, taught, cohort, record, span, "line")

        try:
            return record.once(NAME, Trained, work), cohort.taught
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
        tmp_path, LIMITS.replace("[seats.server]", 'personal = { kind = "fedper" }\n[seats.server]')
    )
    with pytest.raises(Killed):
        trial.start(1, 2)
    assert trial.start(2)[1] == 3


def test_a_killed_training_that_is_begun_afresh_keeps_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path, LIMITS)
    with pytest.raises(Killed):
        trial.start(1, 2)
    checkpoints(trial.party).clear()
    assert trial.start(2)[1] == 3
