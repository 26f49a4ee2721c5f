"""Tests of the scikit-learn source: image parts, columns, labels, and each error."""

from pathlib import Path

import numpy as np
import pytest
from reading import held, refusal
from sklearn.datasets import load_breast_cancer, load_digits

from parties.data.holding import read_holding
from parties.data.sources.images import ImagePart
from parties.data.sources.sklearn_source import SklearnData
from parties.data.sources.source import IdColumns


def test_digits_are_images_scaled_by_sixteen(tmp_path: Path) -> None:
    data = SklearnData(kind="sklearn", name="digits", label=True)
    holding = held(tmp_path, data, active=True)
    assert holding.images is not None
    assert holding.images.shape == (1797, 1, 8, 8)
    assert holding.images.dtype == np.float32
    np.testing.assert_equal(holding.images[:, 0], load_digits().images.astype("f4") / 16)
    np.testing.assert_equal(holding.labels, load_digits().target)
    assert holding.ids[17] == b"digits:17"


def test_part_is_cut_out_of_images(tmp_path: Path) -> None:
    part = ImagePart(rows=(2, 5), columns=(4, 8))
    images = held(tmp_path, SklearnData(kind="sklearn", name="digits", part=part)).images
    assert images is not None
    np.testing.assert_equal(images[:, 0] * 16, load_digits().images[:, 2:5, 4:8])


def test_digits_with_labels_only(tmp_path: Path) -> None:
    data = SklearnData(kind="sklearn", name="digits", features=False, label=True)
    assert held(tmp_path, data, active=True).images is None


def test_bundled_labels_go_by_name(tmp_path: Path) -> None:
    data = SklearnData(kind="sklearn", name="breast_cancer", label=True, columns=(0, 3))
    classes = ("benign", "malignant")  # scikit-learn counts them the other way round
    holding = read_holding(data, folder=tmp_path, classes=classes, active=True)
    np.testing.assert_equal(holding.labels, 1 - load_breast_cancer().target)
    assert holding.numeric == ("mean radius", "mean area")


def test_part_outside_the_image_is_refused(tmp_path: Path) -> None:
    for part in (ImagePart(columns=(4, 9)), ImagePart(rows=(4, 9))):
        error = refusal(tmp_path, SklearnData(kind="sklearn", name="digits", part=part))
        assert "is outside the images of digits" in error
        assert "[4, 9]" in error
        assert "8 rows and 8 columns" in error


@pytest.mark.parametrize("columns", [(0, 30), (-1,), (1, 1), ()])
def test_columns_outside_the_table_are_refused(tmp_path: Path, columns: tuple[int, ...]) -> None:
    data = SklearnData(kind="sklearn", name="breast_cancer", columns=columns)
    assert "different column indices from 0 to 29" in refusal(tmp_path, data)


def test_columns_of_images_and_parts_of_tables_are_refused(tmp_path: Path) -> None:
    digits = SklearnData(kind="sklearn", name="digits", columns=(1,))
    assert "has images, not columns" in refusal(tmp_path, digits)
    wine = SklearnData(kind="sklearn", name="wine", part=ImagePart(rows=(0, 1)))
    assert "has columns, not images" in refusal(tmp_path, wine)


def test_id_columns_of_a_data_set_without_ids_are_refused(tmp_path: Path) -> None:
    digits = SklearnData(kind="sklearn", name="digits", id=IdColumns(columns=("id",)))
    assert "no ID columns" in refusal(tmp_path, digits)
