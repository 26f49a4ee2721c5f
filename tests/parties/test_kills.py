"""A party that is killed comes back, and the run ends with the parameters of one without kills."""

from pathlib import Path
from random import Random

import pytest
from kills import Runs, digests


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_killed_party_comes_back_and_the_parameters_are_the_same(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    wanted = runs.undisturbed(tmp_path / "undisturbed")
    assert len(wanted) == 6
    stories = [("left", "training"), ("office", "fedora"), ("right", "retrain")]
    for number, (victim, phase) in enumerate(stories):
        out = tmp_path / f"{victim}-{phase}"
        notes = runs.killed(out, victim, phase, Random(number))
        assert any(note.startswith("going on from checkpoint") for note in notes), notes
        assert digests(out) == wanted
