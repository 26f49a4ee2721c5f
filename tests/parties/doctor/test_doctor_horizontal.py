"""``vfl doctor`` for a server and for a client of a horizontal run."""

import json
from pathlib import Path
from typing import Any

import pytest
from client_processes import SERVER, Wood
from typer.testing import CliRunner, Result

from parties.cli.main import app
from parties.horizontal.run_party import listen_for_clients
from parties.horizontal.setup import set_up_horizontal_party
from parties.session.setup import StartOptions

NAMES = ("ash", "elm")
UNLEARN = 'unlearn = [{ name = "half", client = "ash", fraction = 0.5 }]'


@pytest.fixture
def wood(tmp_path: Path) -> Wood:
    return Wood(tmp_path, UNLEARN, NAMES)


def visit(wood: Wood, name: str, *options: str) -> tuple[Result, dict[str, list[dict[str, Any]]]]:
    command = ["doctor", str(wood.path), "--party", name, "--certificates", str(wood.keys)]
    command += ["--out", str(wood.out), "--format", "json", "--hub", wood.address, *options]
    result = CliRunner().invoke(app, command, env={"VFL_DATA": None})
    found: dict[str, list[dict[str, Any]]] = {}
    for line in result.output.splitlines():
        event = json.loads(line)
        if event["event"] == "finding":
            found.setdefault(event["check"], []).append(event)
    return result, found


def test_a_server_s_port_keys_and_network_are_looked_at(wood: Wood) -> None:
    result, found = visit(wood, SERVER)
    assert result.exit_code == 0, result.output
    assert found["config"][0]["message"] == "wood: server is server, of 2 clients"
    assert "4,810 parameters, rows of 1 x 8 x 8" in found["network"][0]["message"]
    assert found["data"][0]["message"] == "a server has no rows"
    assert {"certificate", "port", "out folder", "memory", "clock"} <= set(found)
    assert "connection to the hub" not in found


def test_a_network_that_does_not_fit_is_a_mistake_of_the_config(wood: Wood) -> None:
    result, found = visit(wood, SERVER, "--set", 'model={kind="lenet5"}')
    assert result.exit_code == 3
    assert found["network"][0]["state"] == "fail"
    assert "doctor" not in found, "no fault of ours"


def test_a_client_s_rows_are_read_as_a_run_reads_them(wood: Wood) -> None:
    options = StartOptions(wood.out, None, wood.keys)
    server = set_up_horizontal_party(wood.config, SERVER, options, lambda _: None)
    client_data = set_up_horizontal_party(wood.config, "ash", options, lambda _: None).client_data
    with listen_for_clients(server, wood.address):
        result, found = visit(wood, "ash", "--data-full")
    assert result.exit_code == 0, result.output
    assert found["connection to the hub"][0]["state"] == "ok"
    message = f"{len(client_data.train)} for training, {len(client_data.test)} for tests"
    assert found["all rows"][0]["message"].startswith(message)
    assert (
        found["request"][0]["message"]
        == f"'half' unlearns {round(len(client_data.train) / 2)} rows of ash"
    )
    assert "port" not in found


def test_a_client_whose_server_is_not_there_hears_so(wood: Wood) -> None:
    result, found = visit(wood, "elm")
    assert result.exit_code == 6
    assert found["connection to the hub"][0]["state"] == "fail"


def test_a_client_without_labels_and_without_keys_hears_both(wood: Wood) -> None:
    wood.path.write_text(wood.path.read_text().replace("label = true\n", "", 1))
    (wood.keys / "ash.key").unlink()
    result, found = visit(wood, "ash")
    assert result.exit_code == 4
    assert "a client needs labels" in found["label"][0]["message"]
    assert found["certificate"][0]["exit"] == 5


def test_rows_that_do_not_fit_into_the_network_are_told(wood: Wood) -> None:
    result, found = visit(wood, "ash", "--set", "shape=[8]", "--set", 'model={kind="lenet5"}')
    assert result.exit_code == 3
    assert "model.kind = 'lenet5'" in found["network"][0]["message"]
    result, found = visit(wood, "ash", "--data-full", "--set", "shape=[5]")
    assert result.exit_code == 4
    assert "the agreement has shape = [5]" in found["all rows"][0]["message"]
