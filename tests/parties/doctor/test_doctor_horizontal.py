"""``vfl doctor`` for a server and for a client of a horizontal run."""

import json
from pathlib import Path
from typing import Any

import pytest
from client_processes import SERVER, ClientProcesses
from typer.testing import CliRunner, Result

from parties.cli.main import app
from parties.horizontal.run_party import listen_for_clients
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.setup import StartOptions

NAMES = ("ash", "elm")
UNLEARN = 'unlearn = [{ name = "half", client = "ash", fraction = 0.5 }]'


@pytest.fixture
def processes(tmp_path: Path) -> ClientProcesses:
    return ClientProcesses(tmp_path, UNLEARN, NAMES)


def run_doctor(
    processes: ClientProcesses, name: str, *options: str
) -> tuple[Result, dict[str, list[dict[str, Any]]]]:
    command = [
        "doctor",
        str(processes.path),
        "--party",
        name,
        "--certificates",
        str(processes.keys),
    ]
    command += [
        "--out",
        str(processes.out),
        "--format",
        "json",
        "--hub",
        processes.address,
        *options,
    ]
    result = CliRunner().invoke(app, command, env={"VFL_DATA": None})
    findings: dict[str, list[dict[str, Any]]] = {}
    for line in result.output.splitlines():
        event = json.loads(line)
        if event["event"] == "finding":
            findings.setdefault(event["check"], []).append(event)
    return result, findings


def test_port_keys_and_network_of_a_server_are_checked(processes: ClientProcesses) -> None:
    result, findings = run_doctor(processes, SERVER)
    assert result.exit_code == 0, result.output
    assert findings["config"][0]["message"] == "wood: server is server, of 2 clients"
    assert "4,810 parameters, rows of 1 x 8 x 8" in findings["network"][0]["message"]
    assert findings["data"][0]["message"] == "a server has no rows"
    assert {"certificate", "port", "out folder", "memory", "clock"} <= set(findings)
    assert "connection to the hub" not in findings


def test_unsuitable_network_is_a_config_error(processes: ClientProcesses) -> None:
    result, findings = run_doctor(processes, SERVER, "--set", 'model={kind="lenet5"}')
    assert result.exit_code == 3
    assert findings["network"][0]["state"] == "fail"
    assert "doctor" not in findings, "no fault of ours"


def test_rows_of_a_client_are_read_as_in_a_run(processes: ClientProcesses) -> None:
    options = StartOptions(processes.out, None, processes.keys)
    server = set_up_horizontal_party(processes.config, SERVER, options, lambda _: None)
    client_data = set_up_horizontal_party(
        processes.config, "ash", options, lambda _: None
    ).client_data
    with listen_for_clients(server, processes.address):
        result, findings = run_doctor(processes, "ash", "--data-full")
    assert result.exit_code == 0, result.output
    assert findings["connection to the hub"][0]["state"] == "ok"
    message = f"{len(client_data.train)} for training, {len(client_data.test)} for tests"
    assert findings["all rows"][0]["message"].startswith(message)
    assert (
        findings["request"][0]["message"]
        == f"'half' unlearns {round(len(client_data.train) / 2)} rows of ash"
    )
    assert "port" not in findings


def test_unreachable_server_is_reported(processes: ClientProcesses) -> None:
    result, findings = run_doctor(processes, "elm")
    assert result.exit_code == 6
    assert findings["connection to the hub"][0]["state"] == "fail"


def test_missing_labels_and_keys_are_both_reported(processes: ClientProcesses) -> None:
    processes.path.write_text(processes.path.read_text().replace("label = true\n", "", 1))
    (processes.keys / "ash.key").unlink()
    result, findings = run_doctor(processes, "ash")
    assert result.exit_code == 4
    assert "a client needs labels" in findings["label"][0]["message"]
    assert findings["certificate"][0]["exit"] == 5


def test_rows_that_do_not_fit_the_network_are_reported(processes: ClientProcesses) -> None:
    result, findings = run_doctor(
        processes, "ash", "--set", "shape=[8]", "--set", 'model={kind="lenet5"}'
    )
    assert result.exit_code == 3
    assert "model.kind = 'lenet5'" in findings["network"][0]["message"]
    result, findings = run_doctor(processes, "ash", "--data-full", "--set", "shape=[5]")
    assert result.exit_code == 4
    assert "the agreement has shape = [5]" in findings["all rows"][0]["message"]
