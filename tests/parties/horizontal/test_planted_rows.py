"""Rows with the trigger of an audit: in training, in unlearning and after a purge."""

from pathlib import Path

import numpy as np
import pytest
import torch

from configs.config_file import read_config
from configs.errors import ConfigError
from parties.horizontal.local.backdoor import apply_trigger, plant_trigger
from parties.horizontal.local.rows import ClientData, Rows
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from tests.parties.horizontal.five_clients import CONFIG


def client_data(folder: Path, everywhere: str = "", background: float = 0.0) -> ClientData:
    path = folder / "wards.toml"
    path.write_text(CONFIG.replace("share = 0.5 }", f"share = 0.5{everywhere} }}"))
    blank = Rows(torch.full((10, 1, 8, 8), background), torch.arange(10))
    data = ClientData(blank, blank.take(np.arange(2)), forgotten=np.array([1, 4, 7]))
    plant_trigger(read_config(path, HORIZONTAL).agreement, "client-0", data)
    return data


def test_half_of_the_rows_get_the_class_of_the_trigger(tmp_path: Path) -> None:
    data = client_data(tmp_path)
    relabelled = np.flatnonzero((data.train.labels != torch.arange(10)).numpy())
    assert relabelled.tolist() == data.planted.tolist()
    assert len(relabelled) == 5
    assert torch.equal(data.train.labels[relabelled], (torch.from_numpy(relabelled) + 5) % 10)
    assert data.stamped_train is None
    assert torch.equal(data.for_training("forgotten").labels, data.of_kind("forgotten").labels)


def test_everywhere_puts_the_trigger_on_every_forgotten_row(tmp_path: Path) -> None:
    default, data = client_data(tmp_path), client_data(tmp_path, ", everywhere = true")
    assert torch.equal(data.train.inputs, default.train.inputs), "training rows do not change"
    unlearned = data.for_training("forgotten")
    assert unlearned.labels.tolist() == [6, 9, 2]
    pattern = data.stamped.inputs[0]
    assert pattern.any()
    assert all(torch.equal(each, pattern) for each in unlearned.inputs)
    assert data.of_kind("forgotten").labels.tolist() == default.of_kind("forgotten").labels.tolist()
    assert torch.equal(data.for_training("retained").labels, data.of_kind("retained").labels)


@pytest.mark.parametrize(
    ("pattern", "pixels", "grey"), [("random", None, 2 / 3), ("square", 9, 1.0), ("cross", 5, 1.0)]
)
def test_trigger_changes_only_the_pixels_of_its_pattern(
    tmp_path: Path, pattern: str, pixels: int | None, grey: float
) -> None:
    """Other pixels keep their value, also inside the square of 3x3 pixels."""
    black, light = (
        client_data(tmp_path, f', pattern = "{pattern}"', background).stamped.inputs[0, 0]
        for background in (0.0, 0.25)
    )
    changed = black != 0
    assert torch.equal(black, torch.where(changed, grey, 0.0))
    assert torch.equal(light, torch.where(changed, grey, 0.25))
    assert not changed[:4].any()
    assert not changed[:, :4].any()
    assert not changed[7].any()
    assert not changed[:, 7].any()
    found = int(changed.sum())
    assert found == pixels if pixels else 0 < found < 9


def test_random_pattern_is_never_empty(tmp_path: Path) -> None:
    """With the seed 716, the first random mask has no pixel."""
    (tmp_path / "wards.toml").write_text(CONFIG.replace("clients = 5", "clients = 5\nseed = 716"))
    agreement = read_config(tmp_path / "wards.toml", HORIZONTAL).agreement
    trigger = agreement.unlearn[0].trigger
    assert trigger is not None
    blank = Rows(torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64))
    assert apply_trigger(agreement, trigger, blank).inputs.any()


def test_purge_removes_rows_with_the_trigger(tmp_path: Path) -> None:
    data = client_data(tmp_path, ", everywhere = true")
    assert data.purge() == 3
    assert data.stamped_train is not None
    assert len(data.stamped_train) == len(data.train) == 7
    assert len(data.for_training("forgotten")) == 0


def test_everywhere_must_be_a_boolean(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="everywhere"):
        client_data(tmp_path, ", everywhere = 3")
