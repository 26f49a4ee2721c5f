"""Prediction with trained models: the same numbers as in training, for common rows."""

import csv
import json
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from prediction_parties import (
    PASSIVE,
    Spoke,
    add_row_with_large_embedding,
    party_of,
    predict_rows,
    trained_parties,
)
from safetensors.torch import load_file
from three_parties import PARTIES, agreement
from whole_run import TRAINING, run

from configs.config_file import validate_table
from parties.common.errors import DataError, Diverged, PolicyError
from parties.data.holding import Holding
from parties.data.predictions import NOT_HELD, PREDICTED, Predictions, write_predictions
from parties.data.requested_ids import all_ids, parse_ids, read_ids
from parties.session import handshake
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.rows import split_rows
from parties.vertical.methods.registry import AGREEMENT
from parties.vertical.prediction.active import Predictor, predict_vertical_rows
from protocol import vfl_pb2
from protocol.errors import Aborted, LineBroken, RemoteProtocolError
from protocol.hub import Hub
from protocol.message import Body

BARE = {
    "hub": {"role": "active"},
    "left": {"role": "passive", "width": 4},
    "right": {"role": "passive", "width": 2},
}


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained_parties(tmp_path_factory.mktemp("once"))


@pytest.fixture
def trained(trained_folder: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained_folder, tmp_path / "trained")


def table(folder: Path, name: str) -> dict[str, dict[str, str]]:
    rows = csv.DictReader(StringIO((folder / f"{name}.csv").read_text()))
    return {row["id"]: row for row in rows}


def common(folder: Path) -> list[str]:
    held = [set(table(folder, name)) for name in PARTIES]
    return sorted(set.intersection(*held))


# --- predictions ----------------------------------------------------------------------------------


def test_predictions_equal_those_of_the_training_run(trained_folder: Path) -> None:
    own = [row["id"].encode() for row in table(trained_folder, "hub").values()]
    rows = load_file(trained_folder / "runs" / "trio" / "hub" / "rows.safetensors")["rows"].numpy()
    ids = [own[row] for row in rows]
    agreed = validate_table(AGREEMENT, agreement(training=TRAINING), trained_folder, "")
    test = [ids[row].decode() for row in split_rows(agreed, ids, np.zeros(len(ids), bool)).test]
    predictions = predict_rows(trained_folder, test)
    truth = table(trained_folder, "hub")
    right = [name == truth[text]["label"] for text, name, _ in predictions.rows()]
    assert (
        np.mean(right) == json.loads((trained_folder / "metrics.json").read_text())["test_accuracy"]
    )
    assert predictions.held.all()


def test_one_row_at_a_time_gives_the_same_numbers(trained_folder: Path) -> None:
    ids = common(trained_folder)[:4]
    together = predict_rows(trained_folder, ids).probabilities
    alone = np.concatenate([predict_rows(trained_folder, [each]).probabilities for each in ids])
    assert np.abs(together - alone).max() < 1e-12  # the trio computes in float64
    assert np.allclose(together.sum(axis=1), 1)


def test_all_rows_of_the_active_party_are_predicted_without_ids(trained_folder: Path) -> None:
    predictions = predict_rows(trained_folder)
    assert list(predictions.texts) == list(table(trained_folder, "hub"))
    assert int(predictions.held.sum()) == len(common(trained_folder))


def test_row_outside_training_is_predicted_without_a_label(trained: Path) -> None:
    for name in PARTIES:
        with (trained / f"{name}.csv").open("a") as file:
            file.write("newcomer,0.5,-0.5,1.0" + ("," if name == "hub" else "") + "\n")
    (row,) = predict_rows(trained, ["newcomer"]).as_json()
    assert row["status"] == PREDICTED
    assert sum(row["probabilities"].values()) == pytest.approx(1)
    assert row["class"] == max(row["probabilities"], key=row["probabilities"].get)


def test_output_keeps_order_and_repetitions_and_hides_which_party_lacks_a_row(
    trained_folder: Path,
) -> None:
    both = common(trained_folder)
    lacking = sorted(set(table(trained_folder, "hub")) - set(table(trained_folder, "left")))[0]
    ids = [both[1], lacking, both[0], "stranger", both[1]]
    rows = predict_rows(trained_folder, ids).as_json()
    assert [row["id"] for row in rows] == ids
    assert rows[0] == rows[4]
    assert rows[1] == {"id": lacking, "status": NOT_HELD}
    assert rows[3] == {"id": "stranger", "status": NOT_HELD}


def test_an_active_party_without_features_needs_only_the_ids(tmp_path: Path) -> None:
    run(tmp_path, parties=BARE)
    ids = common(tmp_path)[:3]
    (tmp_path / "hub.csv").unlink()
    assert predict_rows(tmp_path, [*ids, "stranger"], agreement(parties=BARE)).held.tolist() == [
        True, True, True, False,
    ]  # fmt: skip


def test_settings_that_do_not_affect_the_model_may_change(trained_folder: Path) -> None:
    plan = agreement(training={"epochs": 9}, psi={"minimum": 10_000})
    assert predict_rows(trained_folder, common(trained_folder)[:1], plan).held.all()


def test_hardened_mode_gives_equal_predictions(trained_folder: Path) -> None:
    ids = common(trained_folder)[:4]
    hardened = agreement(psi={"security": "hardened", "queries": 4})
    predictions = predict_rows(trained_folder, ids, hardened).probabilities
    np.testing.assert_array_equal(predictions, predict_rows(trained_folder, ids).probabilities)
    with pytest.raises(PolicyError, match=r"hub queries 5 rows, but psi\.queries allows at most 4"):
        predict_rows(trained_folder, common(trained_folder)[:5], hardened)


def test_request_without_common_rows_is_refused(trained_folder: Path) -> None:
    lacking = sorted(set(table(trained_folder, "hub")) - set(table(trained_folder, "left")))[:2]
    with pytest.raises(PolicyError, match="no common rows"):
        predict_rows(trained_folder, lacking)


def test_ids_missing_in_the_own_data_are_refused_before_connecting(
    trained_folder: Path,
) -> None:
    party, trained_network = party_of(trained_folder, "hub")
    with pytest.raises(DataError, match="the active party's data has none"):
        predict_vertical_rows(party, trained_network, MemoryPort(), parse_ids(["stranger"], ()))


def test_embedding_beyond_the_limit_is_refused_and_its_party_named(trained: Path) -> None:
    add_row_with_large_embedding(trained)
    with pytest.raises(Diverged, match=r"left: embeddings of these rows are not finite"):
        predict_rows(trained, ["giant"])


# --- requested rows and output files --------------------------------------------------------------


def test_ids_are_read_from_a_table_or_from_lines(tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("town,name,id\nx,a,1\ny,b,2\n")
    (tmp_path / "ids.txt").write_text("a\t1\nb\t2\n")
    table, lines = (read_ids(tmp_path / f"ids.{end}", ("name", "id")) for end in ("csv", "txt"))
    assert table == lines
    assert table.texts == ["a\t1", "b\t2"]
    holding = Holding(ids=table.ids, in_test=np.zeros(2, bool))
    assert all_ids(holding, ("name", "id")) == table


def test_a_line_with_an_empty_part_of_an_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("town,id\nx,1\ny\n")
    with pytest.raises(DataError, match="line 3 has no ID"):
        read_ids(tmp_path / "ids.csv", ("id",))
    (tmp_path / "ids.txt").write_text("a\t1\nb\t \n")
    with pytest.raises(DataError, match="line 2 contains no valid ID"):
        read_ids(tmp_path / "ids.txt", ("name", "id"))


@pytest.mark.parametrize("name", ["ids.csv", "ids.txt"])
def test_a_table_of_ids_may_have_semicolons_and_blank_lines(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("ID;town\n1;x\n\n2;y\n\n")
    assert read_ids(tmp_path / name, ("id",)).texts == ["1", "2"]


def test_an_unknown_id_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ids.csv").write_text("customer\n1\n")
    with pytest.raises(DataError, match=r"ids.csv has no column 'id'") as error:
        read_ids(tmp_path / "ids.csv", ("id",))
    assert "must have the ID columns id" in error.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\nb\tc\n", "line 3 has 2 ID columns; expected 1"),
        ("id\n", "contains no IDs"),
        ("", "is empty"),
    ],
)
def test_invalid_line_of_ids_is_refused_by_its_number(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "ids.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        read_ids(tmp_path / "ids.txt", ("id",))


def test_requested_id_is_normalised_like_the_data() -> None:
    assert parse_ids([" \uff41 "], ()).ids == [b"a"]


FOUND = Predictions(
    ["a", "b\tc"], ["no", "yes"], np.array([[0.25, 0.75], [np.nan, np.nan]])
)  # fmt: skip


def test_csv_has_the_documented_format(tmp_path: Path) -> None:
    write_predictions(tmp_path / "out.csv", FOUND)
    assert (tmp_path / "out.csv").read_text() == (
        "id,status,class,p_no,p_yes\na,predicted,yes,0.25,0.75\nb\tc,not held by all parties,,,\n"
    )


def test_parquet_has_the_same_content_as_csv(tmp_path: Path) -> None:
    write_predictions(tmp_path / "out.parquet", FOUND)
    assert pq.read_table(tmp_path / "out.parquet").to_pylist() == [
        {"id": "a", "status": PREDICTED, "class": "yes", "p_no": 0.25, "p_yes": 0.75},
        {"id": "b\tc", "status": NOT_HELD, "class": None, "p_no": None, "p_yes": None},
    ]


def test_passive_parties_write_nothing(trained: Path) -> None:
    def files() -> dict[str, bytes]:
        folders = [trained / "runs" / "trio" / name for name in PASSIVE]
        paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in paths if path.name != "incarnation"}

    before = files()
    predict_rows(trained, common(trained)[:2])
    assert files() == before
    assert party_of(trained, "left")[0].model_run == party_of(trained, "right")[0].model_run


# --- violations of the protocol -------------------------------------------------------------------


@pytest.fixture
def connected(trained_folder: Path) -> Iterator[tuple[Predictor, Hub, dict[str, Spoke]]]:
    """All rows aligned; the test has the hub's end of each line."""
    port = MemoryPort()
    party, trained_network = party_of(trained_folder, "hub")
    spokes = {name: Spoke(trained_folder, name, port) for name in PASSIVE}
    hub, _ = handshake.accept_spokes(party, port)
    yield Predictor(party, trained_network, hub, np.arange(len(party.holding))), hub, spokes
    hub.close()
    for spoke in spokes.values():
        spoke.thread.join(10)


@pytest.mark.parametrize("rows", [[-1], [2**40], [0] * 5000], ids=["negative", "beyond", "many"])
def test_passive_party_refuses_rows_that_are_not_common(
    connected: tuple[Predictor, Hub, dict[str, Spoke]], rows: list[int]
) -> None:
    _, hub, spokes = connected
    hub.broadcast(vfl_pb2.Predict(), np.array(rows))
    for name, spoke in spokes.items():
        spoke.thread.join(10)
        assert f"hub requests {len(rows)} rows; expected at most 4096" in str(spoke.failure)
        with pytest.raises(Aborted):
            hub.channels[name].receive(5)


@pytest.mark.parametrize(
    "order",
    [
        vfl_pb2.Purge(),
        vfl_pb2.ModelCommand(
            initialise=vfl_pb2.Initialise(stream="new", preprocessing_rows=vfl_pb2.TRAIN_ROWS)
        ),
        vfl_pb2.BatchRequest(
            rows=vfl_pb2.TRAIN_ROWS, order=vfl_pb2.SHUFFLED, epoch=1, size=4, index=0
        ),
    ],
    ids=["purge", "arrange", "ask"],
)
def test_predicting_party_refuses_training_commands(
    connected: tuple[Predictor, Hub, dict[str, Spoke]], order: Body
) -> None:
    _, hub, spokes = connected
    hub.broadcast(order)
    for spoke in spokes.values():
        spoke.thread.join(10)
        assert f"hub sent {type(order).__name__}; expected Predict or Goodbye" in str(spoke.failure)


def test_an_embedding_of_other_rows_is_refused(
    connected: tuple[Predictor, Hub, dict[str, Spoke]], monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, hub, _ = connected
    monkeypatch.setattr(hub, "broadcast", lambda body, rows: Hub.broadcast(hub, body, rows[:1]))
    with pytest.raises(
        RemoteProtocolError, match=r"Embedding has tensors .*; expected one float64"
    ):
        predictor.probabilities(predictor._party.holding.ids)
    hub.abort("protocol", "over")


def test_lost_hub_ends_the_passive_party(
    connected: tuple[Predictor, Hub, dict[str, Spoke]],
) -> None:
    _, hub, spokes = connected
    hub.close()
    for spoke in spokes.values():
        spoke.thread.join(10)
        assert isinstance(spoke.failure, LineBroken)
