"""A client of a horizontal run predicts without the server, with the final model."""

import csv
from pathlib import Path

import pytest
import torch
from client_processes import SERVER, ClientProcesses
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from configs.config_file import read_config
from parties.cli.main import app
from parties.cli.modes import SCHEMAS
from parties.common.errors import DataError
from parties.data.holding import read_holding
from parties.data.sources.csv_source import CsvData
from parties.horizontal.client_store import ClientStore
from parties.horizontal.local.client_data import network_inputs
from parties.horizontal.local.local_task import LocalTask
from parties.horizontal.local.network_client import NetworkClientTask
from parties.horizontal.local.networks import build_whole_network, initial_parameters
from parties.horizontal.registry import SCHEMA as HORIZONTAL
from parties.horizontal.setup import ROW_MODE, set_up_horizontal_party
from parties.horizontal.simulation.simulate import simulate_federated
from parties.horizontal.simulation.simulated_data import ClientState, SimulationSource
from parties.horizontal.simulation.simulated_rows import read_row_data
from parties.report.quantities import format_percent
from parties.report.record import RunRecord
from parties.report.sentences import run_sentence
from parties.session.setup import StartOptions
from parties.session.simulation import SimulationPlan

NAMES = ("ash", "elm")
RUN = "0123456789abcdef" * 2
LOCAL_TASK = LocalTask(stream="one", batch=16, learning_rate=0.1)
SIMULATED = """
federation = "pool"
mode = "horizontal"
clients = 3
shape = [1, 8, 8]
labels = { classes = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] }
model = { kind = "mlp", hidden = [16] }
partition = { kind = "iid" }
training = { rounds = 3, batch = 16, learning_rate = 0.1 }
simulation = { workers = 1 }
parties = { server = { role = "server" } }

[settings.server]
listen = "127.0.0.1:7709"

[settings.client]
data = { kind = "sklearn", name = "digits", label = true }
"""


def client_with_model(wood: ClientProcesses, name: str, kind: str) -> ClientStore:
    """Return a client that trained once and received the final model."""
    options = StartOptions(wood.out, None, wood.keys)
    store = ClientStore(set_up_horizontal_party(wood.config, name, options, lambda _: None))
    model = initial_parameters(wood.config.agreement, "original")
    store.switch_branch(f"{RUN} original 1", None)
    store.run_task("learn", LOCAL_TASK, {"model": model})
    store.deliver(model)
    assert wood.config.agreement.personal.kind == kind
    return store


def predict(path: Path, runs: Path, name: str, *options: str) -> Result:
    command = ["predict", str(path), "--party", name, "--runs", str(runs), *options]
    return CliRunner().invoke(app, command, env={"COLUMNS": "100", "VFL_DATA": None})


def predictions(path: Path) -> list[list[str]]:
    with path.open() as file:
        return list(csv.reader(file))[1:]


@pytest.mark.parametrize("kind", ["none", "fedper", "per-fedavg", "gpfl"])
def test_client_predicts_with_its_personal_model(tmp_path: Path, kind: str) -> None:
    wood = ClientProcesses(tmp_path, f'personal = {{ kind = "{kind}" }}', NAMES)
    store = client_with_model(wood, "ash", kind)
    out = tmp_path / "predictions.csv"
    result = predict(wood.path, wood.out, "ash", "--out", str(out))
    assert result.exit_code == 0, result.output
    data = wood.config.settings("ash").data  # type: ignore[attr-defined]
    classes, shape = wood.config.agreement.labels.classes, wood.config.agreement.shape
    holding = read_holding(data, folder=tmp_path, classes=classes, active=True)
    with torch.no_grad():
        network = store._task.network
        expected = network(network_inputs(holding, data, shape)).argmax(1).tolist()
    rows = predictions(out)
    assert [row[2] for row in rows] == [classes[each] for each in expected]
    assert sum(map(float, rows[0][3:])) == pytest.approx(1.0)


def test_ids_that_are_not_in_the_data_are_marked(tmp_path: Path) -> None:
    wood = ClientProcesses(tmp_path, "", NAMES)
    client_with_model(wood, "ash", "none")
    ids, out = tmp_path / "ids.txt", tmp_path / "predictions.csv"
    assert predict(wood.path, wood.out, "ash", "--out", str(out)).exit_code == 0
    known = predictions(out)[7]
    ids.write_text(f"nobody\n{known[0]}\n")
    result = predict(wood.path, wood.out, "ash", "--out", str(out), "--ids", str(ids), "--force")
    assert "1 rows predicted, 1 not in the data" in " ".join(result.output.split())
    assert predictions(out)[1] == known
    assert predictions(out)[0][1] != known[1]


def test_server_and_client_without_model_are_refused(tmp_path: Path) -> None:
    wood = ClientProcesses(tmp_path, "", NAMES)
    out = ("--out", str(tmp_path / "predictions.csv"))
    at_server = predict(wood.path, wood.out, SERVER, *out)
    assert at_server.exit_code == 3
    assert "a server has no rows to predict" in at_server.output
    without = predict(wood.path, wood.out, "ash", *out)
    assert without.exit_code == 7
    assert "no trained model in" in without.output
    service = predict(wood.path, wood.out, "ash", "--http", "127.0.0.1:0")
    assert service.exit_code == 3
    assert "predicts without the other" in service.output


def test_a_damaged_model_is_refused(tmp_path: Path) -> None:
    wood = ClientProcesses(tmp_path, "", NAMES)
    client_with_model(wood, "ash", "none")
    path = wood.out / "wood" / "ash" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + b"oops")
    result = predict(wood.path, wood.out, "ash", "--out", str(tmp_path / "predictions.csv"))
    assert result.exit_code == 9
    assert "was changed after the run" in result.output


@pytest.mark.slow
def test_a_simulated_client_predicts_with_the_server_s_model(tmp_path: Path) -> None:
    """A client with a name of its own predicts with the same model."""
    path = tmp_path / "pool.toml"
    path.write_text(SIMULATED.replace("parties = {", 'parties = { ash = { role = "client" },'))
    settings = 'data = { kind = "sklearn", name = "digits", label = true }'
    (tmp_path / "ash.party.toml").write_text(settings)
    record = simulate_federated(
        ROW_MODE,
        SimulationPlan(path, (), tmp_path / "runs", None, schemas=SCHEMAS),
        lambda _: None,
    )
    reached = record["run"]["test_accuracy"]
    assert reached == pytest.approx(_test_accuracy(path, tmp_path / "runs"), abs=1e-9)
    assert f"Its test accuracy is {format_percent(reached)}" in run_sentence(
        RunRecord.model_validate(record)
    )
    for name in ("client-0", "ash"):
        out = tmp_path / f"{name}.csv"
        result = predict(path, tmp_path / "runs", name, "--out", str(out))
        assert result.exit_code == 0, result.output
        assert _accuracy(path, [row[2] for row in predictions(out)]) > 0.5


def test_client_may_have_rows_of_one_class(tmp_path: Path) -> None:
    (tmp_path / "ash.csv").write_text("x,y\n" + "1,a\n2,a\n3,a\n" * 5)
    data = CsvData(kind="csv", path=Path("ash.csv"), label="y", ranges={"x": (0.0, 4.0)})
    with pytest.raises(DataError, match="all rows have the same label"):
        read_holding(data, folder=tmp_path, classes=["a", "b"], active=True)
    holding = read_holding(
        data, folder=tmp_path, classes=["a", "b"], active=True, several_classes=False
    )
    assert holding.labels is not None
    assert holding.labels.tolist() == [0] * 15


def _test_accuracy(path: Path, runs: Path) -> float:
    """The accuracy of the server's model on the test rows of all simulated clients."""
    agreement = read_config(path, HORIZONTAL).agreement
    network = build_whole_network(agreement, "shape")
    network.load_state_dict(load_file(runs / "pool" / "server" / "model.safetensors"))
    clients = read_row_data(SimulationSource(path, (), None, read_row_data)).clients()
    right = []
    for name in agreement.spokes:
        client = clients.load(name, ClientState())
        assert isinstance(client, NetworkClientTask)
        test = client.client_data.test
        right += (network(test.inputs).argmax(1) == test.labels).tolist()
    return sum(right) / len(right)


def _accuracy(path: Path, predicted: list[str]) -> float:
    data = read_config(path, HORIZONTAL).settings("client-0").data  # type: ignore[attr-defined]
    classes = read_config(path, HORIZONTAL).agreement.labels.classes
    holding = read_holding(data, folder=path.parent, classes=classes, active=True)
    assert holding.labels is not None
    expected = [classes[each] for each in holding.labels.tolist()]
    return sum(a == b for a, b in zip(predicted, expected, strict=True)) / len(expected)
