"""``vfl doctor``: checks of memory, threads, device, versions and open files."""

import resource
from pathlib import Path

import pytest
from party_folder import PartyFolder

from parties.doctor import machine
from tests.conftest import HUB, SPOKE


def test_module_that_differs_from_the_agreement_is_refused(party_folder: PartyFolder) -> None:
    party_folder.agreed[SPOKE] = f'bottom = {{ kind = "module", source = "sha256:{"0" * 64}" }}'
    party_folder.settings(SPOKE, top='module = "torch.nn:Linear"')
    finding = party_folder.findings(SPOKE)["module"]
    assert finding["exit"] == 3
    assert "the agreement has" in finding["message"]


def test_top_model_that_differs_from_the_agreement_is_refused(party_folder: PartyFolder) -> None:
    party_folder.agreed[SPOKE] = f'[top]\nkind = "module"\nsource = "sha256:{"0" * 64}"'
    party_folder.settings(HUB, top='top_module = "torch.nn:Linear"')
    finding = party_folder.findings(HUB)["top module"]
    assert finding["exit"] == 3
    assert "the agreement has" in finding["message"]
    assert "top module" not in party_folder.findings(SPOKE)
    party_folder.settings(SPOKE, top='top_module = "torch.nn:Linear"')
    result = party_folder.run_doctor(SPOKE)
    assert "the key 'top_module' is not allowed in the settings of the passive" in result.output


def test_more_threads_than_cores_give_a_warning(party_folder: PartyFolder) -> None:
    party_folder.settings(HUB, top="threads = 1000")
    assert "1000 threads on" in party_folder.findings(HUB)["threads"]["message"]


def test_missing_gpu_is_reported(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert party_folder.findings(HUB)["device"]["message"] == "main memory"
    party_folder.settings(HUB, top='device = "cuda"')
    finding = party_folder.findings(HUB)["device"]
    assert finding["exit"] == 3
    assert "finds 0 CUDA devices" in finding["message"]


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "densenet121"])
def test_memory_of_a_backbone_covers_its_parameters(name: str) -> None:
    from models.backbones import BACKBONES  # noqa: PLC0415  large

    built = sum(each.numel() for each in BACKBONES[name]((3, 8, 8), 64).parameters())
    assert machine._BACKBONES[name] == pytest.approx(built, rel=0.02)


def test_changed_torch_version_gives_a_warning(party_folder: PartyFolder) -> None:
    state = party_folder.folder / "runs" / "trial" / HUB
    state.mkdir(parents=True)
    (state / "manifest.json").write_text('{"torch": "1.0", "threads": 3}')
    findings = party_folder.findings(HUB)
    assert "used torch 1.0" in findings["versions"]["message"]
    assert findings["threads"]["state"] == "warning"


def test_low_limit_of_open_files_gives_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (64, 64))
    assert [each.state.value for each in machine.check_open_files()] == ["warning"]


def test_insufficient_memory_gives_a_warning(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_memory", lambda: 500 << 20)
    finding = party_folder.findings(HUB)["memory"]
    assert finding["state"] == "warning"
    assert "of 0.5 GB" in finding["message"]


def test_memory_limit_of_a_container_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "_LIMIT", limit)
    whole = machine._memory()
    limit.write_text("max\n")
    assert machine._memory() == whole
    limit.write_text("1000000\n")
    assert machine._memory() == 1_000_000
