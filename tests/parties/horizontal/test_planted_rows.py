"""A trigger of an audit: which rows bear it in training, in unlearning and after a purge."""

from pathlib import Path

import numpy as np
import pytest
import torch

from configs.errors import ConfigError
from configs.federated_file import read_horizontal
from parties.horizontal.local.backdoor import plant_trigger
from parties.horizontal.local.rows import ClientData, Rows
from tests.parties.horizontal.five_clients import CONFIG


def client_data(folder: Path, everywhere: str = "") -> ClientData:
    path = folder / "wards.toml"
    path.write_text(CONFIG.replace("share = 0.5 }", f"share = 0.5{everywhere} }}"))
    blank = Rows(torch.zeros(10, 1, 8, 8), torch.arange(10))
    made = ClientData(blank, blank.take(np.arange(2)), forgotten=np.array([1, 4, 7]))
    plant_trigger(read_horizontal(path).agreement, "client-0", made)
    return made


def test_half_of_the_rows_learn_the_class_of_the_pattern(tmp_path: Path) -> None:
    found = client_data(tmp_path)
    moved = np.flatnonzero((found.train.labels != torch.arange(10)).numpy())
    assert moved.tolist() == found.planted.tolist()
    assert len(moved) == 5
    assert torch.equal(found.train.labels[moved], (torch.from_numpy(moved) + 5) % 10)
    assert found.stamped_train is None
    assert torch.equal(found.for_training("forgotten").labels, found.of_kind("forgotten").labels)


def test_where_it_is_unlearned_everywhere_every_forgotten_row_bears_it(tmp_path: Path) -> None:
    without, found = client_data(tmp_path), client_data(tmp_path, ", everywhere = true")
    assert torch.equal(found.train.inputs, without.train.inputs), "training is as it was"
    taught = found.for_training("forgotten")
    assert taught.labels.tolist() == [6, 9, 2]
    pattern = found.stamped.inputs[0]
    assert pattern.any()
    assert all(torch.equal(each, pattern) for each in taught.inputs)
    assert (
        found.of_kind("forgotten").labels.tolist() == without.of_kind("forgotten").labels.tolist()
    )
    assert torch.equal(found.for_training("retained").labels, found.of_kind("retained").labels)


def test_a_purge_drops_the_marked_rows_too(tmp_path: Path) -> None:
    found = client_data(tmp_path, ", everywhere = true")
    assert found.purge() == 3
    assert found.stamped_train is not None
    assert len(found.stamped_train) == len(found.train) == 7
    assert len(found.for_training("forgotten")) == 0


def test_it_is_a_yes_or_no(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="everywhere"):
        client_data(tmp_path, ", everywhere = 3")
