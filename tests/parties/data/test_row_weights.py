"""Weights of rows in a party's table: they are read as numbers, checked, and are no feature."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from three_parties import agreement, certify, party, write_data

from parties.common.errors import DataError
from parties.data.holding import Holding, read_holding, select_rows
from parties.data.sources.csv_source import CsvData
from parties.data.sources.parquet_source import ParquetData
from parties.horizontal.local.client_data import read_partitioned_data
from parties.horizontal.registry import AGREEMENT

HEAD = "id,x,y,w\n"
KEYS: dict[str, Any] = {"id": {"columns": ("id",)}, "label": "y", "weight": "w"}


def read(folder: Path, text: str, **keys: Any) -> Holding:
    """Read a CSV file with the columns id, x, y and w."""
    (folder / "a.csv").write_text(HEAD + text)
    data = CsvData(kind="csv", path=Path("a.csv"), **(KEYS | keys))
    return read_holding(data, folder=folder, classes=("no", "yes"), active=True)


def test_weight_is_no_feature_and_changes_the_digest(tmp_path: Path) -> None:
    found = read(tmp_path, "a,1,no,0\nb,2,yes,2.5\n")
    assert found.weights is not None
    assert found.weights.tolist() == [0.0, 2.5]
    assert found.numeric == ("x",)
    other = read(tmp_path, "a,1,no,0\nb,2,yes,2.25\n")
    assert other.digest != found.digest
    chosen = select_rows(found, np.array([1])).weights
    assert chosen is not None
    assert chosen.tolist() == [2.5]


def test_weight_stands_beside_a_label_that_is_a_number(tmp_path: Path) -> None:
    data = CsvData(kind="csv", path=Path("a.csv"), **KEYS)
    (tmp_path / "a.csv").write_text(HEAD + "a,1,7,3\nb,2,8,4\n")
    found = read_holding(data, folder=tmp_path, classes=(), active=True, task="regression")
    assert found.labels is not None
    assert found.weights is not None
    assert (found.labels.tolist(), found.weights.tolist()) == ([7, 8], [3, 4])
    assert found.numeric == ("x",)


def test_weights_of_a_parquet_file(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": ["a", "b"], "x": [1, 2], "y": ["no", "yes"], "w": [1, 3]})
    table.to_parquet(tmp_path / "a.parquet")
    data = ParquetData(kind="parquet", path=Path("a.parquet"), **KEYS)
    found = read_holding(data, folder=tmp_path, classes=("no", "yes"), active=True)
    assert found.weights is not None
    assert found.weights.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,1,no,\nb,2,yes,1\n", r"'w' \(data.weight\) .* no weight in 1 line of a.csv \(2\)"),
        ("a,1,no,-81\nb,2,yes,-1\n", r"'w' .* a negative weight in 2 lines of a.csv \(2, 3\)"),
        ("a,1,no,1e-40\nb,2,yes,1\n", r"'w' .* not from 1e-30 to 1e\+30 in 1 line of a.csv"),
        ("a,1,no,1e40\nb,2,yes,1\n", r"'w' .* not from 1e-30 to 1e\+30 in 1 line of a.csv"),
        ("a,1,no,0\nb,2,yes,0\n", r"'w' .*: the weights of all 2 rows are 0"),
        ("a,1,no,inf\nb,2,yes,1\n", "NaN or infinity in numeric column 'w': 1 line of a.csv"),
        ("a,1,no,much\nb,2,yes,1\n", "text in numeric column 'w': 1 line of a.csv"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, text)
    assert "81" not in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"weight": "v"}, "a.csv has no column 'v'"),
        ({"weight": "y"}, "column 'y' is listed more than once"),
        ({"numeric": ("x", "w")}, "column 'w' is listed more than once"),
    ],
)
def test_columns_that_are_no_weights_are_refused(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, "a,1,no,1\nb,2,yes,1\n", **keys)


@pytest.mark.parametrize(
    ("name", "agreed", "column", "message"),
    [
        ("hub", True, "", "the data of hub has no weights of the rows"),
        ("hub", False, "weight", r"settings of hub name .* \(data.weight\), which nothing uses"),
        ("left", True, "weight", r"settings of left name .* \(data.weight\), which nothing uses"),
    ],
)
def test_only_the_active_party_has_weights_and_only_if_agreed(
    tmp_path: Path, name: str, agreed: bool, column: str, message: str
) -> None:
    write_data(tmp_path)
    certify(tmp_path)
    if column:
        table = pd.read_csv(tmp_path / f"{name}.csv")
        table.assign(weight=1.5).to_csv(tmp_path / f"{name}.csv", index=False)
    plan = agreement(training={"sample_weights": agreed})
    with pytest.raises(DataError, match=message):
        party(tmp_path, name, plan, [])


def test_clients_of_a_server_have_no_weights(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEAD + "a,1,no,1\nb,2,yes,1\n")
    data = CsvData(kind="csv", path=Path("a.csv"), **KEYS)
    plan = AGREEMENT.model_validate(
        {
            "federation": "wards",
            "mode": "horizontal",
            "clients": 4,
            "shape": (1,),
            "labels": {"classes": ("no", "yes")},
            "parties": {"server": {"role": "server"}},
        }
    )
    with pytest.raises(DataError, match="weights of the rows, which only the vertical mode has"):
        read_partitioned_data(plan, "server", data, tmp_path, lambda _: None)
