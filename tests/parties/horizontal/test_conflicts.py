"""The count of clients that a step goes against, by hand, and as the table defines it."""

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


class Fixed(LocalCohort):
    """What each of them learns is known."""

    def updates(
        self, members: Iterable[Member], task: LocalTask, slots: Slots
    ) -> Iterator[tuple[Member, LocalUpdate]]:
        for member in members:
            yield member, LocalUpdate(torch.tensor(CHANGES[member.client]), 1, 0.0, 1)


def test_clients_beyond_a_right_angle_to_what_is_subtracted_are_counted() -> None:
    """d = (1, 0): g = (2, 0) goes along, (-2, -2) against; (-2e-8, -2) within the tolerance."""
    before, after = torch.tensor([3.0, 0.0]), torch.tensor([2.0, 0.0])
    members = [Member(name) for name in CHANGES]
    found = count_conflicts(Fixed({}), members, LOCAL_TASK, before, after)
    assert found == (1, pytest.approx(1.0))
    assert count_conflicts(Fixed({}), members, LOCAL_TASK, after, before)[0] == 1, (
        "of -d it is the other one"
    )
    assert count_conflicts(Fixed({}), members, LOCAL_TASK, before, before) == (0, 0.0)


def test_the_table_of_conflicts_says_what_they_are() -> None:
    (block,) = (each for each in read_horizontal_blocks().block if "conflicts" in each.measures)
    for words in ("pseudo-gradient", "more than 90 degrees", "subtracted", "-1e-6", "of the nine"):
        assert words in block.note
