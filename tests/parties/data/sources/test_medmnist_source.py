"""Tests of the MedMNIST source on small archives, on a real one, and of each error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import held, refusal

from configs.config_file import validate_table
from configs.errors import ConfigError
from parties.data.holding import read_holding
from parties.data.sources.images import ImagePart
from parties.data.sources.medmnist_source import MedMnistData
from parties.data.sources.source import IdColumns
from tests.data_folder import needed

GENERATOR = np.random.default_rng(0)
GREY = {part: GENERATOR.integers(0, 256, (rows, 4, 6), np.uint8) for part, rows in
        (("train", 3), ("val", 2), ("test", 2))}  # fmt: skip
LABELS = {"train": [[7], [0], [7]], "val": [[1], [2]], "test": [[0], [1]]}


def archive(folder: Path, arrays: dict[str, Any] | None = None, **options: Any) -> MedMnistData:
    whole = {f"{part}_images": images for part, images in GREY.items()}
    whole |= {f"{part}_labels": np.array(labels, np.uint8) for part, labels in LABELS.items()}
    np.savez_compressed(folder / "mnist.npz", allow_pickle=True, **whole | (arrays or {}))
    return MedMnistData(kind="medmnist", path=Path("mnist.npz"), **options)


def test_training_and_validation_rows_are_learned_from(tmp_path: Path) -> None:
    holding = held(tmp_path, archive(tmp_path, label=True), active=True)
    assert list(holding.ids) == [
        b"train:0", b"train:1", b"train:2", b"val:0", b"val:1", b"test:0", b"test:1",
    ]  # fmt: skip
    assert holding.in_test.tolist() == [False] * 5 + [True] * 2
    assert holding.labels is not None
    assert holding.images is not None
    assert holding.labels.tolist() == [7, 0, 7, 1, 2, 0, 1]
    whole = np.concatenate([GREY["train"], GREY["val"], GREY["test"]])
    np.testing.assert_equal(holding.images, whole[:, None].astype("f4") / 255)


def test_parts_of_colour_images(tmp_path: Path) -> None:
    colour = {
        f"{part}_images": GENERATOR.integers(0, 256, (len(images), 4, 6, 3), np.uint8)
        for part, images in GREY.items()
    }
    data = archive(tmp_path, colour, part=ImagePart(columns=(2, 5)))
    holding = held(tmp_path, data)
    assert holding.images is not None
    assert holding.images.shape == (7, 3, 4, 3)
    np.testing.assert_equal(
        holding.images[1, 2], colour["train_images"][1, :, 2:5, 2].astype("f4") / 255
    )


def test_labels_alone(tmp_path: Path) -> None:
    holding = held(tmp_path, archive(tmp_path, label=True, features=False), active=True)
    assert (holding.images, len(holding)) == (None, 7)


def test_arrays_of_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x_train=GREY["train"], y_train=np.array([1, 0, 2]))
    data = MedMnistData(
        kind="medmnist", path=Path("x.npz"), train=("train",), test=None,
        names=("x_{}", "y_{}"), label=True,
    )  # fmt: skip
    assert list(held(tmp_path, data, active=True).ids) == [b"train:0", b"train:1", b"train:2"]


def test_name_without_a_placeholder_for_the_part_is_refused() -> None:
    data = {"kind": "medmnist", "path": "x.npz", "names": ["images", "{}_labels"]}
    with pytest.raises(
        ConfigError, match=r"each entry of the key 'names' must contain \{\} exactly once"
    ):
        validate_table(MedMnistData, data, Path("settings"), "")


def test_missing_part_is_refused_with_the_available_arrays(tmp_path: Path) -> None:
    data = archive(tmp_path).model_copy(update={"test": "exam"})
    assert "no array 'exam_images' | the archive has" in refusal(tmp_path, data)


def test_part_named_twice_is_refused(tmp_path: Path) -> None:
    data = archive(tmp_path, train=("train", "test"))
    assert "the same part of the archive more than once" in refusal(tmp_path, data)


@pytest.mark.parametrize(
    "images",
    [np.zeros((3, 4, 6)), np.zeros((3, 4), np.uint8), np.zeros((3, 4, 6, 2), np.uint8),
     np.zeros((3, 0, 6), np.uint8)],
)  # fmt: skip
def test_images_of_another_shape_or_type_are_refused(tmp_path: Path, images: Any) -> None:
    error = refusal(tmp_path, archive(tmp_path, {"train_images": images}))
    assert "the images of part 'train' of mnist.npz cannot be used" in error


@pytest.mark.parametrize("labels", [np.zeros((3, 14), np.uint8), np.zeros(3), np.array(["a"] * 3)])
def test_labels_of_another_shape_or_type_are_refused(tmp_path: Path, labels: Any) -> None:
    error = refusal(tmp_path, archive(tmp_path, {"train_labels": labels}, label=True), True)
    assert "one class per row" in error


def test_another_number_of_labels_than_images_is_refused(tmp_path: Path) -> None:
    data = archive(tmp_path, {"val_labels": np.array([1, 2, 3])}, label=True)
    assert "part 'val' of mnist.npz have no rows or different numbers of rows: 2 and 3" in refusal(
        tmp_path, data, True
    )


@pytest.mark.parametrize("label", [10, -1])
def test_unknown_label_is_refused(tmp_path: Path, label: int) -> None:
    data = archive(tmp_path, {"val_labels": np.array([1, label])}, label=True)
    error = refusal(tmp_path, data, True)
    assert "an unknown label in 1 row of part 'val' of mnist.npz (1)" in error


def test_images_of_another_size_in_one_part_are_refused(tmp_path: Path) -> None:
    data = archive(tmp_path, {"test_images": np.zeros((2, 3, 6), np.uint8)})
    assert "differ in size" in refusal(tmp_path, data)


def test_part_outside_the_images_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, archive(tmp_path, part=ImagePart(columns=(2, 7))))
    assert "is outside the images" in error


def test_pickled_images_are_refused(tmp_path: Path) -> None:
    data = archive(tmp_path, {"train_images": np.array([{}], dtype=object)})
    assert "is not an archive of plain arrays" in refusal(tmp_path, data)


def test_archive_that_decompresses_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.data.sources.files.MAX_RATIO", 0)
    monkeypatch.setattr("parties.data.sources.files._SMALL", 100)
    assert "unpacks to" in refusal(tmp_path, archive(tmp_path))


def test_id_columns_are_refused(tmp_path: Path) -> None:
    data = archive(tmp_path, id=IdColumns(columns=("id",)))
    assert "no ID columns" in refusal(tmp_path, data)


def test_settings_without_features_and_labels_are_refused(tmp_path: Path) -> None:
    assert "neither images nor labels" in refusal(tmp_path, archive(tmp_path, features=False))


def test_labels_at_a_passive_party_are_refused(tmp_path: Path) -> None:
    assert "the data of a passive party has labels" in refusal(
        tmp_path, archive(tmp_path, label=True)
    )


def test_pneumonia_halves_are_those_of_the_archive() -> None:
    path = Path("medmnist/pneumoniamnist_reassembled.npz")
    left = MedMnistData(kind="medmnist", path=path, part=ImagePart(columns=(0, 14)))
    right = left.model_copy(update={"part": ImagePart(columns=(14, 28))})
    folder = needed(left)
    halves = [
        read_holding(data, folder=folder, classes=("normal", "pneumonia"), active=False)
        for data in (left, right)
    ]
    whole = np.concatenate([half.images for half in halves if half.images is not None], axis=3)
    with np.load(folder / path) as original:
        np.testing.assert_equal(whole[5000, 0], original["val_images"][292].astype("f4") / 255)
    assert whole.shape == (5856, 1, 28, 28)
    assert halves[0].in_test.sum() == 624
    assert list(halves[0].ids) == list(halves[1].ids)
