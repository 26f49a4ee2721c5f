"""Runs of the role programs whose label is a number, or several binary labels."""

import csv
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from other_labels import LABELS, NUMBER, truth, write_diabetes, write_multilabel
from prediction_parties import predict_rows
from safetensors.torch import load_file
from sklearn.metrics import (
    hamming_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)
from three_parties import agreement
from whole_run import run

from configs.config_file import validate_table
from parties.common.errors import DataError
from parties.data.predictions import Predictions, write_predictions
from parties.data.preprocess import declared_target
from parties.data.sources.csv_source import CsvData
from parties.report.pages.scientist import report_page
from parties.vertical.engine.rows import RowSets, split_rows
from parties.vertical.evaluation.trained.alone import SEVERAL_LABELS
from parties.vertical.methods.registry import AGREEMENT

TRAINED = {"learning_rate": 0.02, "batch": 32, "epochs": 12, "patience": 4}


def row_sets(folder: Path, **changes: Any) -> tuple[list[str], RowSets]:
    """The IDs of the common rows, and the row sets of a run."""
    own = [line.split(",")[0] for line in (folder / "hub.csv").read_text().splitlines()[1:]]
    rows = load_file(folder / "runs" / "trio" / "hub" / "rows.safetensors")["rows"].tolist()
    ids = [own[row] for row in rows]
    agreed = validate_table(AGREEMENT, agreement(**changes), folder, "")
    return ids, split_rows(agreed, [each.encode() for each in ids], np.zeros(len(ids), bool))


def predicted(folder: Path, plan: dict[str, Any]) -> tuple[Predictions, NDArray[np.float64], Any]:
    """The predictions for test rows, the true labels of these rows, and those of training rows."""
    ids, sets = row_sets(folder, **plan)
    test = [ids[row] for row in sets.test]
    found = predict_rows(folder, test, agreement(**plan))
    return found, truth(folder, test), truth(folder, [ids[row] for row in sets.train])


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and the metrics of a run on the diabetes data."""
    folder = tmp_path_factory.mktemp("numbers")
    return folder, run(folder, before=write_diabetes, labels=NUMBER, training=TRAINED)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and the metrics of a run with three binary labels."""
    folder = tmp_path_factory.mktemp("labels")
    plan = {"labels": LABELS, "training": TRAINED | {"monitor": "auc"}}
    return folder, run(folder, before=write_multilabel, **plan)


def test_figures_of_a_number_are_those_of_sklearn_on_predicted_values(
    numbers: tuple[Path, dict[str, Any]],
) -> None:
    folder, metrics = numbers
    found, labels, learned = predicted(folder, {"labels": NUMBER, "training": TRAINED})
    values, right, model = found.probabilities[:, 0], labels[:, 0], metrics["model"]
    assert model["r2"] == pytest.approx(r2_score(right, values), abs=1e-9)
    assert model["mae"] == pytest.approx(mean_absolute_error(right, values))
    assert model["rmse"] == pytest.approx(np.sqrt(mean_squared_error(right, values)))
    mean = learned.mean()
    assert model["mean"] == pytest.approx(mean)
    assert model["mean_mae"] == pytest.approx(np.abs(right - mean).mean())
    assert model["mean_rmse"] == pytest.approx(np.sqrt(((right - mean) ** 2).mean()))
    assert model["r2"] > 0.3  # it learned: the mean has at most 0
    assert model["mae"] < 0.9 * model["mean_mae"]
    assert (model["accuracy"], model["auc"], model["confusion"]) == (None, None, None)


def test_own_columns_reach_less_than_all_columns(numbers: tuple[Path, dict[str, Any]]) -> None:
    model = numbers[1]["model"]
    alone = model["alone"]
    assert alone["columns"]
    assert alone["r2"] < model["r2"]
    assert alone["gain_r2"]["value"] == pytest.approx(model["r2"] - alone["r2"])
    assert alone["gain_mae"]["value"] == pytest.approx(alone["mae"] - model["mae"])
    low, high = alone["gain_mae"]["ci95"]
    assert low < alone["gain_mae"]["value"] < high


def test_early_stopping_keeps_the_epoch_with_the_lowest_loss(
    numbers: tuple[Path, dict[str, Any]],
) -> None:
    training = numbers[1]["training"]
    losses = [each["validation_loss"] for each in training["steps"]]
    assert training["kept"] == 1 + int(np.argmin(losses))
    assert all(each["validation_accuracy"] is None for each in training["steps"])


def test_predictions_of_a_number_are_written_in_its_unit(
    numbers: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    plan = {"labels": NUMBER, "training": TRAINED}
    known = row_sets(numbers[0], **plan)[0][0]
    found = predict_rows(numbers[0], [known, "stranger"], agreement(**plan))
    value = float(found.probabilities[0, 0])
    assert 25 < value < 346  # the range of the label
    assert found.as_json() == [
        {"id": known, "status": "predicted", "value": value},
        {"id": "stranger", "status": "not held by all parties"},
    ]
    write_predictions(tmp_path / "out.csv", found)
    rows = list(csv.DictReader(StringIO((tmp_path / "out.csv").read_text())))
    assert [list(each) for each in rows] == [["id", "status", "value"]] * 2
    assert (float(rows[0]["value"]), rows[1]["value"]) == (pytest.approx(value), "")
    write_predictions(tmp_path / "out.parquet", found)
    assert pq.read_table(tmp_path / "out.parquet")["value"].to_pylist() == [value, None]


def test_party_without_columns_answers_with_the_mean(tmp_path: Path) -> None:
    parties = agreement()["parties"] | {"hub": {"role": "active"}}
    plan = {"parties": parties, "labels": NUMBER, "training": TRAINED}
    model = run(tmp_path, before=write_diabetes, **plan)["model"]
    assert model["alone"]["columns"] is False
    assert model["alone"]["mae"] == pytest.approx(model["mean_mae"])
    assert model["alone"]["r2"] <= 0


def test_figures_of_several_labels_are_those_of_sklearn(
    several: tuple[Path, dict[str, Any]],
) -> None:
    folder, metrics = several
    plan = {"labels": LABELS, "training": TRAINED | {"monitor": "auc"}}
    found, labels, _ = predicted(folder, plan)
    scores, model = found.probabilities, metrics["model"]
    for average in ("macro", "micro"):
        area = roc_auc_score(labels, scores, average=average)
        assert model[f"auc_{average}"] == pytest.approx(area)
    assert model["hamming_loss"] == pytest.approx(hamming_loss(labels, scores > 0.5))
    assert model["accuracy"] == pytest.approx(((scores > 0.5) == labels).all(axis=1).mean())
    for at, name in enumerate(LABELS["classes"]):
        assert model["label_auc"][name] == pytest.approx(
            roc_auc_score(labels[:, at], scores[:, at])
        )
    assert model["auc_macro"] > 0.7
    areas = [each["validation_auc"] for each in metrics["training"]["steps"]]
    assert metrics["training"]["kept"] == 1 + int(np.argmax(areas))
    row = found.as_json()[0]
    assert list(row["probabilities"]) == ["a", "b", "c"]
    assert "class" not in row


def test_pages_show_the_figures(
    numbers: tuple[Path, dict[str, Any]], several: tuple[Path, dict[str, Any]]
) -> None:
    page = report_page(numbers[1])
    assert "Mean absolute error of the mean" in page
    assert "ROC AUC" not in page
    page = report_page(several[1])
    assert "Hamming loss" in page
    assert f"columns alone: {SEVERAL_LABELS}" in page


def test_declared_range_of_the_label_standardises_the_shards(tmp_path: Path) -> None:
    unlearning = {"method": "sharded", "compare": (), "retrains": 0}
    training = {name: each for name, each in TRAINED.items() if name != "patience"}
    plan = {"labels": NUMBER, "training": training, "unlearning": unlearning}
    plan |= {"preprocessing": "declared", "sharding": {"shards": 2}}
    metrics = run(tmp_path, before=write_diabetes, **plan)
    found, labels, _ = predicted(tmp_path, plan)
    assert metrics["model"]["r2"] == pytest.approx(
        r2_score(labels[:, 0], found.probabilities[:, 0]), abs=1e-9
    )
    parameters = load_file(tmp_path / "runs" / "trio" / "hub" / "model.safetensors")
    kept = {name: each.item() for name, each in parameters.items() if "target" in name}
    assert kept == {
        f"{shard}.target.{name}": value
        for shard in (0, 1)
        for name, value in (("mean", 185.5), ("scale", 160.5))
    }


def test_label_without_a_declared_range_is_refused() -> None:
    data = CsvData(kind="csv", path=Path("a.csv"), label="y", ranges={"x": (0.0, 1.0)})
    with pytest.raises(DataError, match="lack the range of the label 'y'"):
        declared_target(data)
