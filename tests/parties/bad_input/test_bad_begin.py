"""Beginning where an unfinished run left checkpoints: never by guess, never over what is there."""

from pathlib import Path

import pytest
import torch
from door import AGREEMENT, SETTINGS, Trial, made

from configs.schema import canonical_agreement, read_config
from parties.session.checkpoint import CheckpointContent, Checkpoints
from tests.conftest import SPOKE


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> Trial:
    return made(tmp_path, keys)


def leave(trial: Trial, agreement: str, data: str, numbers: range) -> Path:
    """Checkpoints as an unfinished run leaves them."""
    folder = trial.folder / "runs" / "trial" / SPOKE / "checkpoints"
    ours = Checkpoints(folder, party=SPOKE, agreement=agreement, data=data)
    for number in numbers:
        ours.write(number, bytes(16), CheckpointContent({}, {"model": {"weights": torch.ones(number)}}))
    return folder


def test_going_on_without_a_checkpoint_is_refused(trial: Trial) -> None:
    text = trial.start("passive", SPOKE, "--begin", "resume").refuses(
        7, "there is no checkpoint in"
    )
    assert "leave --begin resume out" in text


def test_checkpoints_of_another_agreement_are_refused_with_what_differs(trial: Trial) -> None:
    other = trial.write(AGREEMENT.replace("epochs = 2", "epochs = 3") + SETTINGS, "other.toml")
    folder = leave(trial, canonical_agreement(read_config(other).agreement), "", range(1, 4))
    words = ("training.epochs was 3, is 2", "--begin fresh")
    trial.start().refuses(7, str(folder), *words)
    assert len(list(folder.glob("*.json"))) == 2  # they stay


def test_checkpoints_of_other_data_are_refused(trial: Trial) -> None:
    leave(trial, canonical_agreement(read_config(trial.config).agreement), "00", range(1, 4))
    trial.start().refuses(9, "the data of shop is not what the unfinished run", "--begin fresh")


def test_beginning_anew_removes_checkpoints_that_are_in_the_way(trial: Trial) -> None:
    folder = leave(trial, "{}", "", range(1, 4))
    trial.start("passive", SPOKE, "--begin", "fresh").refuses(6, "no process listens")
    assert not folder.exists()


def test_a_word_that_is_no_way_to_begin_is_refused_with_those_that_are(trial: Trial) -> None:
    trial.start("passive", SPOKE, "--begin", "again").refuses(2, "fresh", "resume")
