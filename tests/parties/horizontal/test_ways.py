"""From the settings to the ways to unlearn."""

from pathlib import Path
from typing import get_args

import pytest

from configs.client_unlearning import ClientMethod
from configs.errors import ConfigError
from configs.federated_file import read_horizontal
from configs.horizontal import HorizontalAgreement
from parties.horizontal.methods.federaser import FedEraser
from parties.horizontal.methods.fedgkt import FedGkt
from parties.horizontal.methods.fedmm import FedMm
from parties.horizontal.methods.fedrecovery import FedRecovery
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.sfu import Sfu
from parties.horizontal.registry import build_method

CONFIG = """
federation = "wards"
mode = "horizontal"
clients = 5
shape = [1, 8, 8]
labels = { classes = ["a", "b"] }
parties = { server = { role = "server" } }
model = { kind = "mlp", hidden = [4] }
partition = { kind = "iid" }

[unlearning.fedmm]
impair = { rounds = 2, learning_rate = 0.5 }
share = 0.25
noise_rows = 3
penalty = 0.0

[unlearning.sfu]
stop_at_uniform = false

[unlearning.fedrecovery]
epsilon = 2.0
beta = 0.01

[unlearning.fedgkt]
gate = "GATE"
max_probability = 0.125
max_similarity = -0.5

[settings.server]
listen = "127.0.0.1:7709"

[settings.client]
data = { kind = "sklearn", name = "digits", label = true }
"""


def agreement(folder: Path, gate: str = "classes") -> HorizontalAgreement:
    (folder / "wards.toml").write_text(CONFIG.replace("GATE", gate))
    return read_horizontal(folder / "wards.toml").agreement


@pytest.mark.parametrize("name", get_args(ClientMethod))
def test_every_name_has_its_method(tmp_path: Path, name: ClientMethod) -> None:
    assert build_method(agreement(tmp_path), name).name == name


def test_settings_of_noise_arrive(tmp_path: Path) -> None:
    found = build_method(agreement(tmp_path), "fedmm")
    assert isinstance(found, FedMm)
    assert (found.impair.rounds, found.impair.task.learning_rate) == (2, 0.5)
    assert (found.share, found.noise.rows, found.noise.penalty) == (0.25, 3, 0.0)


@pytest.mark.parametrize(("gate", "threshold"), [("classes", 0.125), ("features", -0.5)])
def test_the_gate_has_the_measure_that_it_goes_by(
    tmp_path: Path, gate: str, threshold: float
) -> None:
    found = build_method(agreement(tmp_path, gate), "fedgkt")
    assert isinstance(found, FedGkt)
    assert (found.gate, found.plan.threshold) == (gate, threshold)


def test_settings_of_fedrecovery_s_noise_arrive(tmp_path: Path) -> None:
    found = build_method(agreement(tmp_path), "fedrecovery")
    assert isinstance(found, FedRecovery)
    assert (found.epsilon, found.beta) == (2.0, 0.01)


def test_federaser_s_rounds_are_those_that_were_kept(tmp_path: Path) -> None:
    """A number of rounds of its own would say nothing."""
    (tmp_path / "wards.toml").write_text(CONFIG.replace("GATE", "classes"))
    with pytest.raises(ConfigError, match="rounds"):
        read_horizontal(tmp_path / "wards.toml", ("unlearning.federaser.calibrate.rounds=3",))
    few = read_horizontal(tmp_path / "wards.toml", ("unlearning.federaser.calibrate.epochs=3",))
    found = build_method(few.agreement, "federaser")
    assert isinstance(found, FedEraser)
    assert found.calibrate.task.epochs == 3


def test_ascent_stops_at_a_uniform_guess_unless_it_is_told_not_to(tmp_path: Path) -> None:
    stops, goes_on = (build_method(agreement(tmp_path), name) for name in ("fu-pga", "sfu"))
    assert isinstance(stops, FuPga)
    assert isinstance(goes_on, Sfu)
    assert (stops.ascent.task.aim, goes_on.ascent.task.aim) == ("ascent", "elastic")
