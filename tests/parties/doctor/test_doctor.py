"""``vfl doctor``: a party without problems, a wrong config, and the exit code."""

import json
from pathlib import Path

import pytest
from party_folder import SECRET, PartyFolder, expect_failure, pin_keys
from typer.testing import CliRunner

from parties.cli.main import app
from parties.doctor import folders
from tests.conftest import HUB, SPOKE


def test_valid_party_passes_all_checks(party_folder: PartyFolder) -> None:
    pin_keys(party_folder)
    findings = party_folder.findings(HUB, "--data-full", at="0.0.0.0:0")
    assert (findings["result"]["failed"], findings["result"]["exit"]) == (0, 0)
    del findings["result"], findings["clock"]  # the result depends on this machine
    assert {name: each["state"] for name, each in findings.items() if each["state"] != "ok"} == {}
    checks = {"config", "versions", "numbers", "data", "all rows", "certificate", "pins", "port",
            "state folder", "out folder", "temporary folder", "memory"}  # fmt: skip
    assert checks <= set(findings)
    assert not (party_folder.folder / "runs").exists()  # the command writes no file


def test_missing_config_is_the_only_finding(tmp_path: Path) -> None:
    command = ["doctor", str(tmp_path / "none.toml"), "--party", HUB, "--format", "json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 3
    first, last = map(json.loads, result.output.splitlines())
    assert (first["check"], first["exit"]) == ("config", 3)
    assert last["exit"] == 3


def test_unknown_party_is_refused(party_folder: PartyFolder) -> None:
    expect_failure(party_folder, "shopp", 3, "the parties are bank, shop")


def test_settings_with_an_unknown_key_are_refused(party_folder: PartyFolder) -> None:
    party_folder.settings(SPOKE, top="lisen = 3")
    assert "did you mean 'listen'" in party_folder.findings(SPOKE)["config"]["message"]


def test_settings_without_an_address_are_refused(party_folder: PartyFolder) -> None:
    expect_failure(
        party_folder, SPOKE, 3, 'set hub = "host:7700" in the party settings, or give --hub', at=""
    )


def test_exit_code_is_that_of_the_first_failure(party_folder: PartyFolder) -> None:
    (party_folder.folder / "bank.csv").unlink()
    (party_folder.certs / "bank.pem").unlink()
    (party_folder.folder / "runs").write_text("a file")
    findings = party_folder.findings(HUB)
    assert findings["result"]["failed"] == 4
    assert findings["result"]["exit"] == 4


def test_crashed_check_hides_no_other_check_and_shows_no_data(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> str:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(folders, "_file_system", broken)
    findings = party_folder.findings(HUB)
    assert "unexpected ZeroDivisionError at" in findings["doctor"]["message"]
    assert SECRET not in findings["doctor"]["message"]
    assert findings["result"]["exit"] == 1
    assert findings["memory"]["state"] == "ok"
