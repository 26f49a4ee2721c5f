"""``vfl certs``: authority, request and certificate make a keyring that peers accept."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from parties.cli.main import app
from protocol.keyring import read_keyring

CONFIGS = Path(__file__).parents[3] / "configs"
DIGITS = str(CONFIGS / "vertical" / "digits.toml")


def certs(*options: str | Path) -> Result:
    return CliRunner().invoke(app, ["certs", *map(str, options)], env={"COLUMNS": "100"})


def test_authority_request_and_certificate_make_a_keyring(tmp_path: Path) -> None:
    authority, home = tmp_path / "authority", tmp_path / "home"
    assert certs("authority", DIGITS, "--out", authority).exit_code == 0
    requested = certs("request", DIGITS, "--party", "left", "--out", home, "--format", "json")
    assert requested.exit_code == 0
    signed = certs(
        "sign", DIGITS, home / "left.csr", "--party", "left", "--authority", authority,
        "--out", home, "--format", "json",
    )  # fmt: skip
    assert signed.exit_code == 0
    pins = {
        json.loads(line).get("pin") for line in (requested.output + signed.output).splitlines()
    } - {None}
    assert len(pins) == 1
    (home / "ca.pem").write_bytes((authority / "ca.pem").read_bytes())
    assert read_keyring(home, "left").identity.name == "left"
    shown = certs("fingerprint", home / "left.pem")
    assert f'pins = ["{pins.pop()}"]' in shown.output


@pytest.mark.parametrize("config", ["horizontal/digits.toml", "llm/tofu.toml"])
def test_a_server_of_either_mode_gets_its_keys(config: str, tmp_path: Path) -> None:
    path = CONFIGS / config
    assert certs(path, "--out", tmp_path / "all").exit_code == 0
    assert read_keyring(tmp_path / "all", "server").identity.name == "server"
    assert certs("authority", path, "--out", tmp_path / "authority").exit_code == 0
    assert certs("request", path, "--party", "server", "--out", tmp_path / "home").exit_code == 0


def test_options_are_accepted_before_the_config(tmp_path: Path) -> None:
    assert certs("--out", tmp_path / "all", DIGITS).exit_code == 0
    assert (tmp_path / "all" / "office.pem").exists()


def test_party_outside_the_agreement_is_refused(tmp_path: Path) -> None:
    result = certs("request", DIGITS, "--party", "lefft", "--out", tmp_path)
    assert result.exit_code == 3
    assert "left, office, right" in result.output
    assert list(tmp_path.iterdir()) == []


def test_a_request_of_another_party_is_not_signed(tmp_path: Path) -> None:
    certs("authority", DIGITS, "--out", tmp_path)
    certs("request", DIGITS, "--party", "left", "--out", tmp_path)
    result = certs(
        "sign", DIGITS, tmp_path / "left.csr", "--party", "right", "--authority", tmp_path,
        "--out", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 5
    assert "requests the name" in result.output
    assert not (tmp_path / "right.pem").exists()


def test_existing_certificate_is_not_overwritten(tmp_path: Path) -> None:
    certs("authority", DIGITS, "--out", tmp_path)
    certs("request", DIGITS, "--party", "left", "--out", tmp_path)
    command = (
        "sign", DIGITS, tmp_path / "left.csr", "--party", "left", "--authority", tmp_path,
        "--out", tmp_path,
    )  # fmt: skip
    assert certs(*command).exit_code == 0
    first = (tmp_path / "left.pem").read_bytes()
    again = certs(*command)
    assert again.exit_code == 5
    assert "is not overwritten" in again.output
    assert (tmp_path / "left.pem").read_bytes() == first


def test_read_only_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for command in (
        ["authority", DIGITS, "--out", tmp_path / "file"],
        ["request", DIGITS, "--party", "left", "--out", tmp_path / "file" / "deep"],
        [DIGITS, "--out", tmp_path / "file"],
    ):
        result = certs(*command)
        assert result.exit_code == 7, result.output
        assert "choose another --out" in result.output
