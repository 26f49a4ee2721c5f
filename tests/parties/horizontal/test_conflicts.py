"""The number of clients in conflict with a step, by hand and as the table defines it."""

from collections.abc import Iterable, Iterator

import pytest
import torch
from local_cohort import LocalCohort

from parties.experiments.bench.horizontal.blocks import read_horizontal_blocks
from parties.horizontal.engine.cohort import Member
from parties.horizontal.evaluation.outcome import count_conflicts
from parties.horizontal.local.local_task import LocalTask, LocalUpdate, Slots

LOCAL_TASK = LocalTask(stream="one", batch=1, learning_rate=0.5)
CHANGES = {"along": [-1.0, 0.0], "across": [0.0, 2.0], "hurt": [1.0, 1.0], "hardly": [1e-8, 1.0]}


class FixedUpdates(LocalCohort):
    """A cohort whose clients return the updates in ``CHANGES``."""

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        for member in members:
            yield member, LocalUpdate(torch.tensor(CHANGES[member.client]), 1, 0.0, 1)


def test_clients_beyond_90_degrees_from_the_step_are_counted() -> None:
    """d = (1, 0): g = (2, 0) agrees, (-2, -2) conflicts, (-2e-8, -2) is within the tolerance."""
    before, after = torch.tensor([3.0, 0.0]), torch.tensor([2.0, 0.0])
    members = [Member(name) for name in CHANGES]
    conflicts = count_conflicts(FixedUpdates({}), members, LOCAL_TASK, before, after)
    assert conflicts == (1, pytest.approx(1.0))
    assert count_conflicts(FixedUpdates({}), members, LOCAL_TASK, after, before)[0] == 1, (
        "-d is in conflict with the other client"
    )
    assert count_conflicts(FixedUpdates({}), members, LOCAL_TASK, before, before) == (0, 0.0)


def test_note_of_the_table_defines_conflicts() -> None:
    (block,) = (each for each in read_horizontal_blocks().block if "conflicts" in each.measures)
    for phrase in ("pseudo-gradient", "more than 90 degrees", "subtracted", "-1e-6", "of nine"):
        assert phrase in block.note
