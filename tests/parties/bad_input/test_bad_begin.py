"""--begin, where an unfinished run left checkpoints: wrong checkpoints are refused and stay."""

from pathlib import Path

import pytest
import torch
from command_trial import AGREEMENT, SETTINGS, Trial, make_trial

from configs.config_file import canonical_agreement, read_config
from parties.session.checkpoint import CheckpointContent, Checkpoints
from parties.vertical.methods import registry
from tests.conftest import SPOKE


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> Trial:
    return make_trial(tmp_path, keys)


def leave_checkpoints(trial: Trial, agreement: str, data: str, numbers: range) -> Path:
    """Write checkpoints as an unfinished run leaves them; return their folder."""
    folder = trial.folder / "runs" / "trial" / SPOKE / "checkpoints"
    ours = Checkpoints(folder, party=SPOKE, agreement=agreement, data=data)
    for number in numbers:
        ours.write(
            number, bytes(16), CheckpointContent({}, {"model": {"weights": torch.ones(number)}})
        )
    return folder


def test_resume_without_a_checkpoint_is_refused(trial: Trial) -> None:
    text = trial.start("passive", SPOKE, "--begin", "resume").expect(
        7, "no checkpoint in", "to resume from"
    )
    assert "omit --begin resume" in text


def test_checkpoints_of_another_agreement_are_refused_with_the_difference(trial: Trial) -> None:
    other = trial.write(AGREEMENT.replace("epochs = 2", "epochs = 3") + SETTINGS, "other.toml")
    folder = leave_checkpoints(
        trial,
        canonical_agreement(read_config(other, registry.SCHEMA).agreement),
        "",
        range(1, 4),
    )
    words = ("training.epochs was 3, is 2", "--begin fresh")
    trial.start().expect(7, str(folder), *words)
    assert len(list(folder.glob("*.json"))) == 2  # they were not removed


def test_checkpoints_of_other_data_are_refused(trial: Trial) -> None:
    leave_checkpoints(
        trial,
        canonical_agreement(read_config(trial.config, registry.SCHEMA).agreement),
        "00",
        range(1, 4),
    )
    trial.start().expect(9, "used other data of shop", "--begin fresh")


def test_fresh_start_removes_old_checkpoints(trial: Trial) -> None:
    folder = leave_checkpoints(trial, "{}", "", range(1, 4))
    trial.start("passive", SPOKE, "--begin", "fresh").expect(6, "no process listens")
    assert not folder.exists()


def test_invalid_value_of_begin_is_refused_with_the_legal_values(trial: Trial) -> None:
    trial.start("passive", SPOKE, "--begin", "again").expect(2, "fresh", "resume")
