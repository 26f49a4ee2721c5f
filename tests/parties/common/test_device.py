"""Devices: a party's network may be on another device, and what it sends is in main memory."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from three_parties import TRAIN, open_split_model
from torch import nn
from whole_run import run

from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.common.device import device_of, embed, prepare_device
from parties.data.party_settings import VerticalPartySettings
from parties.vertical.engine.local_model import _block

SETTINGS = {"data": {"kind": "sklearn", "name": "digits"}}


def test_cpu_is_the_default_device() -> None:
    assert validate_table(VerticalPartySettings, SETTINGS, Path("settings"), "").device == "cpu"


@pytest.mark.parametrize("name", ["meta", "gpu", "cuda:", "cuda:x", "mps", ""])
def test_device_of_another_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="device"):
        validate_table(VerticalPartySettings, SETTINGS | {"device": name}, Path("settings"), "")


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_absent_gpu_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="finds 0 CUDA devices") as caught:
        prepare_device(name)
    assert 'device = "cpu" in the party settings' in caught.value.hint


def test_gpu_beyond_those_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(ConfigError, match="finds 2 CUDA devices"):
        prepare_device("cuda:2")


@pytest.mark.slow
def test_computation_is_deterministic_after_device_setup() -> None:
    """In a separate process, because both settings hold for a whole process."""
    script = (
        "import os, torch\n"
        "from parties.common.device import prepare_device\n"
        "torch.cuda.is_available, torch.cuda.device_count = (lambda: True), (lambda: 1)\n"
        "assert prepare_device('cuda').type == 'cuda'\n"
        "assert os.environ['CUBLAS_WORKSPACE_CONFIG'] == ':4096:8'\n"
        "assert torch.are_deterministic_algorithms_enabled()\n"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", script], cwd=root, check=True)


def test_network_without_parameters_is_in_main_memory() -> None:
    assert device_of(nn.Flatten()) == torch.device("cpu")


class MetaNetwork(nn.Module):
    """A network on another device, which checks the device of its features."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, device="meta"))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        assert features.device.type == "meta"
        return torch.ones(len(features), 2)


def test_features_move_to_the_network_and_embeddings_to_main_memory() -> None:
    assert embed(MetaNetwork(), torch.ones(3, 2)).device.type == "cpu"


def test_checkpoint_blocks_move_to_the_device_of_the_network() -> None:
    (block,) = _block({"0000": torch.ones(3)}, torch.device("meta"))
    assert block.device.type == "meta"


def test_all_parts_of_a_local_model_are_on_the_configured_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new local model is moved to the party's device, for both roles."""
    moved: list[torch.device] = []
    original = nn.Module.to

    def to(module: nn.Module, *where: object) -> nn.Module:
        moved.extend(each for each in where if isinstance(each, torch.device))
        return original(module, *where)

    monkeypatch.setattr(nn.Module, "to", to)
    with open_split_model(tmp_path) as (split_model, _):
        split_model.initialise("stream", 1, TRAIN)
    assert moved == [torch.device("cpu")] * 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT RUN: no GPU")
@pytest.mark.parametrize("where", [("left",), ("hub", "left", "right")])
def test_run_on_a_gpu_is_close_to_the_run_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[str, ...]
) -> None:
    import three_parties  # noqa: PLC0415

    for name in ("cpu", "gpu"):
        (tmp_path / name).mkdir()
    on_cpu = run(tmp_path / "cpu")
    plain = three_parties.party_settings

    def settings(*given: object) -> dict[str, VerticalPartySettings]:
        cpu_settings = plain(*given)  # type: ignore[arg-type]
        placed = {name: cpu_settings[name].model_copy(update={"device": "cuda"}) for name in where}
        return cpu_settings | placed

    monkeypatch.setattr(three_parties, "party_settings", settings)
    on_gpu = run(tmp_path / "gpu")
    one, other = (each["training"]["steps"][-1]["loss"] for each in (on_cpu, on_gpu))
    assert other == pytest.approx(one, rel=1e-6)
