"""``vfl doctor``: a party without problems, a wrong config, and the exit code."""

import json
from pathlib import Path

import pytest
from party_folder import SECRET, PartyFolder, expect_failure, pin_keys
from typer.testing import CliRunner

from parties.cli.main import app
from parties.doctor import folders
from tests.conftest import HUB, SPOKE


def test_a_party_that_is_ready_passes(party_folder: PartyFolder) -> None:
    pin_keys(party_folder)
    found = party_folder.findings(HUB, "--data-full", at="0.0.0.0:0")
    assert (found["result"]["failed"], found["result"]["exit"]) == (0, 0)
    del found["result"], found["clock"]  # the result depends on this machine
    assert {name: each["state"] for name, each in found.items() if each["state"] != "ok"} == {}
    assert {"config", "versions", "numbers", "data", "all rows", "certificate", "pins", "port",
            "state folder", "out folder", "temporary folder", "memory"} <= set(found)  # fmt: skip
    assert not (party_folder.folder / "runs").exists()  # the command writes no file


def test_a_config_that_is_absent_is_the_only_finding(tmp_path: Path) -> None:
    asked = ["doctor", str(tmp_path / "none.toml"), "--party", HUB, "--format", "json"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 3
    first, last = map(json.loads, result.output.splitlines())
    assert (first["check"], first["exit"]) == ("config", 3)
    assert last["exit"] == 3


def test_a_party_that_nobody_is_is_refused(party_folder: PartyFolder) -> None:
    expect_failure(party_folder, "shopp", 3, "the parties are bank, shop")


def test_settings_with_an_unknown_key_is_refused(party_folder: PartyFolder) -> None:
    party_folder.settings(SPOKE, top="lisen = 3")
    assert "did you mean 'listen'" in party_folder.findings(SPOKE)["config"]["message"]


def test_settings_without_an_address_are_refused(party_folder: PartyFolder) -> None:
    expect_failure(
        party_folder, SPOKE, 3, 'set hub = "host:7700" in the party settings, or give --hub', at=""
    )


def test_the_first_failure_gives_the_code(party_folder: PartyFolder) -> None:
    (party_folder.folder / "bank.csv").unlink()
    (party_folder.certs / "bank.pem").unlink()
    (party_folder.folder / "runs").write_text("a file")
    found = party_folder.findings(HUB)
    assert found["result"]["failed"] == 4
    assert found["result"]["exit"] == 4


def test_a_check_that_breaks_hides_no_other_and_shows_no_data(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> str:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(folders, "_file_system", broken)
    found = party_folder.findings(HUB)
    assert "unexpected ZeroDivisionError at" in found["doctor"]["message"]
    assert SECRET not in found["doctor"]["message"]
    assert found["result"]["exit"] == 1
    assert found["memory"]["state"] == "ok"
