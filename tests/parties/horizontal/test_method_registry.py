"""Unlearning methods built from the settings."""

from pathlib import Path

import pytest

from configs.config_file import read_config
from configs.errors import ConfigError
from configs.horizontal import HorizontalAgreement
from parties.horizontal.methods.federaser import FedEraser
from parties.horizontal.methods.fedgkt import FedGkt
from parties.horizontal.methods.fedmm import FedMm
from parties.horizontal.methods.fedrecovery import FedRecovery
from parties.horizontal.methods.fu_pga import FuPga
from parties.horizontal.methods.sfu import Sfu
from parties.horizontal.registry import METHODS, build_method
from parties.horizontal.registry import SCHEMA as HORIZONTAL

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
    return read_config(folder / "wards.toml", HORIZONTAL).agreement


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_name_builds_its_method(tmp_path: Path, name: str) -> None:
    assert build_method(agreement(tmp_path), name).name == name


def test_fedmm_uses_its_noise_settings(tmp_path: Path) -> None:
    method = build_method(agreement(tmp_path), "fedmm")
    assert isinstance(method, FedMm)
    assert (method.impair.rounds, method.impair.task.learning_rate) == (2, 0.5)
    assert (method.plan.share, method.noise.rows, method.noise.penalty) == (0.25, 3, 0.0)


@pytest.mark.parametrize(("gate", "threshold"), [("classes", 0.125), ("features", -0.5)])
def test_gate_uses_the_threshold_of_its_kind(tmp_path: Path, gate: str, threshold: float) -> None:
    method = build_method(agreement(tmp_path, gate), "fedgkt")
    assert isinstance(method, FedGkt)
    assert (method.plan.gate, method.losses.threshold) == (gate, threshold)


def test_fedrecovery_uses_its_noise_settings(tmp_path: Path) -> None:
    method = build_method(agreement(tmp_path), "fedrecovery")
    assert isinstance(method, FedRecovery)
    assert (method.plan.epsilon, method.plan.beta) == (2.0, 0.01)


def test_federaser_refuses_a_number_of_rounds(tmp_path: Path) -> None:
    """FedEraser repeats the stored rounds, so it has no number of rounds."""
    (tmp_path / "wards.toml").write_text(CONFIG.replace("GATE", "classes"))
    with pytest.raises(ConfigError, match="rounds"):
        read_config(
            tmp_path / "wards.toml", HORIZONTAL, ("unlearning.federaser.calibrate.rounds=3",)
        )
    config = read_config(
        tmp_path / "wards.toml", HORIZONTAL, ("unlearning.federaser.calibrate.epochs=3",)
    )
    method = build_method(config.agreement, "federaser")
    assert isinstance(method, FedEraser)
    assert method.calibrate.task.epochs == 3


def test_stop_at_uniform_selects_the_aim_of_ascent(tmp_path: Path) -> None:
    fu_pga, sfu = (build_method(agreement(tmp_path), name) for name in ("fu-pga", "sfu"))
    assert isinstance(fu_pga, FuPga)
    assert isinstance(sfu, Sfu)
    assert (fu_pga.ascent.task.aim, sfu.ascent.task.aim) == ("ascent", "elastic")
