"""Labels that are numbers, or several binary labels: reading, and every refusal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from configs.targets import Task
from parties.common.errors import DataError
from parties.data.holding import Holding, read_holding
from parties.data.sources.csv_source import CsvData
from parties.data.sources.sklearn_source import SklearnData

HEAD = "id,x,y,z\n"


def read(
    folder: Path, text: str, task: Task, classes: tuple[str, ...] = (), **keys: Any
) -> Holding:
    """Read a CSV file whose labels are those of ``task``."""
    (folder / "a.csv").write_text(HEAD + text)
    data = CsvData(kind="csv", path=Path("a.csv"), id={"columns": ("id",)}, **keys)  # type: ignore[arg-type]
    return read_holding(data, folder=folder, classes=classes, active=True, task=task)


def test_number_is_a_label_and_no_feature(tmp_path: Path) -> None:
    text = 'a;"1,5";"2,25";3\nb;4;"-5,5";6\n'.replace(";", ",")
    found = read(tmp_path, text, "regression", label="y", decimal=",")
    assert found.labels is not None
    assert found.labels.tolist() == [2.25, -5.5]
    assert found.numeric == ("x", "z")


def test_several_labels_are_columns_in_the_order_of_the_list(tmp_path: Path) -> None:
    found = read(tmp_path, "a,5,1,0\nb,6,1,1\n", "multilabel", ("q", "p"), label=("z", "y"))
    assert found.labels is not None
    assert found.labels.tolist() == [[0.0, 1.0], [1.0, 1.0]]
    assert found.numeric == ("x",)


@pytest.mark.parametrize(
    ("text", "task", "classes", "label", "message"),
    [
        ("a,1,,3\nb,1,2,3\n", "regression", (), "y", "found no label in 1 line of a.csv"),
        ("a,1,high,3\nb,1,2,3\n", "regression", (), "y", "numeric column 'y'"),
        ("a,1,2,3\nb,1,2,3\n", "regression", (), "y", "all rows have the same label"),
        ("a,1,2,3\nb,1,1,0\n", "multilabel", ("y", "z"), ("y", "z"), "neither 0 nor 1"),
        ("a,1,,1\nb,1,1,0\n", "multilabel", ("y", "z"), ("y", "z"), "found no label"),
        ("a,1,1,1\nb,1,1,0\n", "multilabel", ("y", "z"), ("y",), "names 1 columns"),
        ("a,1,1,1\nb,1,1,0\n", "regression", (), ("y", "z"), "names 2 columns"),
        ("a,1,1,1\nb,1,1,0\n", "classification", ("0", "1"), ("y", "z"), "names 2 columns"),
    ],
)
def test_unusable_labels_are_refused(
    tmp_path: Path,
    text: str,
    task: Task,
    classes: tuple[str, ...],
    label: str | tuple[str, ...],
    message: str,
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, task, classes, label=label)


def test_source_of_classes_is_refused_for_a_number(tmp_path: Path) -> None:
    data = SklearnData(kind="sklearn", name="wine", label=True)
    with pytest.raises(DataError, match="the label of the data set wine is a class"):
        read_holding(data, folder=tmp_path, classes=(), active=True, task="regression")
    other = SklearnData(kind="sklearn", name="diabetes", label=True)
    with pytest.raises(DataError, match="the label of the data set diabetes is a number"):
        read_holding(other, folder=tmp_path, classes=("a", "b"), active=True)
    with pytest.raises(DataError, match=r"labels\.task = 'multilabel' is not possible"):
        read_holding(other, folder=tmp_path, classes=("a", "b"), active=True, task="multilabel")


def test_diabetes_of_sklearn_has_its_numbers(tmp_path: Path) -> None:
    data = SklearnData(kind="sklearn", name="diabetes", label=True)
    found = read_holding(data, folder=tmp_path, classes=(), active=True, task="regression")
    assert found.labels is not None
    assert (len(found), found.labels.dtype) == (442, np.float64)
    assert (found.labels.min(), found.labels.max()) == (25, 346)
    assert data.label_columns == ("target",)
