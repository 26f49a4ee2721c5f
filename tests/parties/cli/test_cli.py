"""The command line: help texts, refusals and exit codes."""

import json
import stat
import tomllib
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from parties.cli.main import app, party_app, simulate_app
from parties.cli.progress_view import ProgressView

DIGITS = Path(__file__).parents[3] / "configs" / "vertical" / "digits.toml"


def vfl_party(*options: str) -> Result:
    return CliRunner().invoke(party_app, list(options), env={"COLUMNS": "100", "VFL_DATA": None})


def run_party(role: str, name: str, *options: str) -> Result:
    return vfl_party("--role", role, "--config", str(DIGITS), "--party", name, *options)


def test_help_describes_every_option() -> None:
    output = vfl_party("--help").output
    for word in ("--role", "--config", "--party", "--hub", "--data", "--certificates", "Example"):
        assert word in output


@pytest.mark.parametrize("role", ["server", "client"])
def test_role_of_another_mode_is_refused_with_the_expected_role(role: str) -> None:
    result = run_party(role, "left")
    assert result.exit_code == 3
    assert "left has the role passive" in result.output
    assert "--role passive" in result.output


def test_unknown_role_is_refused_with_the_legal_roles() -> None:
    result = run_party("pasive", "left")
    assert result.exit_code == 2
    assert "passive" in result.output


def test_role_that_differs_from_the_agreement_is_refused() -> None:
    result = run_party("active", "left")
    assert result.exit_code == 3
    assert "party left has the role passive in" in result.output
    assert "--role passive" in result.output


def test_unknown_party_is_refused_with_the_known_parties() -> None:
    result = run_party("passive", "lefft")
    assert result.exit_code == 3
    assert "no party 'lefft'" in result.output
    assert "left, office, right" in result.output


def test_simulated_client_cannot_be_started_as_a_process() -> None:
    path = str(DIGITS.parents[1] / "horizontal" / "digits.toml")
    result = vfl_party("--role", "client", "--config", path, "--party", "client-0")
    assert result.exit_code == 3
    assert "client-0 is a simulated client in" in result.output


def test_missing_config_is_refused(tmp_path: Path) -> None:
    gone = str(tmp_path / "none.toml")
    result = vfl_party("--role", "passive", "--config", gone, "--party", "left")
    assert result.exit_code == 3
    assert "No such file" in result.output


def test_missing_certificates_are_refused(tmp_path: Path) -> None:
    result = run_party("passive", "left", "--certificates", str(tmp_path), "--hub", "localhost:1")
    assert result.exit_code == 5
    assert "ca.pem" in result.output
    assert "vfl certs" in result.output


def test_json_format_prints_each_error_as_one_object() -> None:
    result = run_party("passive", "lefft", "--format", "json")
    event = json.loads(result.output)
    assert (event["event"], event["exit"]) == ("error", 3)
    assert event["hint"] == "the parties are left, office, right"


def test_missing_data_is_refused_with_its_origin(tmp_path: Path) -> None:
    config = DIGITS.with_name("income.toml")
    folders = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "runs")]
    options = [str(config), "--in-process", *folders]
    result = CliRunner().invoke(simulate_app, options)
    assert result.exit_code == 4
    assert "adult.data" in result.output
    assert str(tmp_path) in result.output.replace("\n", "")
    assert "archive.ics.uci.edu" in result.output


def test_unexpected_error_shows_no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, agreements: object, changes: object) -> None:
        raise ZeroDivisionError("secret 4711")

    monkeypatch.setattr("parties.cli.modes.read_any", fail)
    result = run_party("passive", "left")
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.output
    assert "4711" not in result.output


def test_certificates_are_created_for_every_party_and_not_overwritten(tmp_path: Path) -> None:
    made = CliRunner().invoke(app, ["certs", str(DIGITS), "--out", str(tmp_path / "certs")])
    assert made.exit_code == 0
    pin_tables = made.output.rpartition("wrote")[0]
    pins = tomllib.loads(pin_tables)["parties"]
    assert {name: len(party["pins"]) for name, party in pins.items()} == {
        "left": 1, "office": 1, "right": 1,
    }  # fmt: skip
    assert {path.name for path in (tmp_path / "certs").iterdir()} == {
        "ca.pem", "ca.key", "left.pem", "left.key", "right.pem", "right.key", "office.pem",
        "office.key",
    }  # fmt: skip
    keys = [path.stat().st_mode for path in (tmp_path / "certs").glob("*.key")]
    assert all(stat.S_IMODE(mode) == 0o600 for mode in keys)
    again = CliRunner().invoke(app, ["certs", str(DIGITS), "--out", str(tmp_path / "certs")])
    assert again.exit_code == 5
    assert "is not overwritten" in again.output


def test_a_setting_can_be_changed_and_is_checked() -> None:
    result = run_party("passive", "left", "--set", "training.epochs=0")
    assert result.exit_code == 3
    assert "training.epochs" in result.output


def test_markup_in_texts_of_a_peer_is_not_interpreted() -> None:
    console = Console(file=StringIO(), width=200)
    with ProgressView(console, {"hub": "active"}) as view:
        view.show({"event": "warning", "party": "hub", "text": "left runs 'vfl [/x] [red]0.1'"})
    assert "vfl [/x] [red]0.1" in console.file.getvalue()


@pytest.mark.parametrize("version", ["", "latest", "-1", "1.5", "²"])
def test_from_needs_a_version(version: str) -> None:
    result = run_party("passive", "left", f"--from={version}")
    assert result.exit_code == 2
    assert "expected newest or the number of a version" in result.output
    assert "vfl models list" in result.output


def test_from_does_not_go_with_serve() -> None:
    result = run_party("passive", "left", "--from", "newest", "--serve")
    assert result.exit_code == 2
    assert "give one of the two" in result.output


def test_from_is_refused_in_other_modes() -> None:
    path = str(DIGITS.parents[1] / "horizontal" / "digits.toml")
    result = vfl_party(
        "--role", "server", "--config", path, "--party", "server", "--from", "newest"
    )
    assert result.exit_code == 2
    assert "omit --from" in result.output


def test_simulation_goes_on_from_the_version_before(tmp_path: Path) -> None:
    options = [str(DIGITS), "--in-process", "--out", str(tmp_path / "runs"), "--format", "json"]
    for change in ("training.epochs=1", "unlearn=[]", "training.continued.top_epochs=1"):
        options += ["--set", change]
    refused = CliRunner().invoke(simulate_app, [*options, "--from", "newest"])
    assert refused.exit_code == 7
    assert "no version of the model is kept" in refused.output
    first = CliRunner().invoke(simulate_app, options)
    assert first.exit_code == 0, first.output
    second = CliRunner().invoke(simulate_app, [*options, "--from", "1"])
    assert second.exit_code == 0, second.output
    assert "the training goes on from version 1" in second.output
    list_options = ["models", "list", str(DIGITS), "--party", "left"]
    listed = CliRunner().invoke(app, [*list_options, "--out", str(tmp_path / "runs")])
    assert "training from version 1" in listed.output
