"""Tests of the Tiny ImageNet source on a few images, and of each error."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from parties.common.errors import DataError
from parties.data.holding import Holding, read_holding
from parties.data.sources.images import ImagePart
from parties.data.sources.source import IdColumns
from parties.data.sources.tiny_imagenet_source import TinyImageNetData

FISH, FROG = "n01443537", "n01641577"
ROOT = Path("tiny-imagenet-200")


def jpeg(seed: int, mode: str = "RGB", side: int = 64) -> bytes:
    """A smooth image, so that JPEG changes little."""
    slope = np.linspace(0, 40 * seed, side)
    grey = (slope[:, None] + slope[None]).astype(np.uint8)
    image = Image.fromarray(grey if mode == "L" else np.stack([grey, grey // 2, grey * 0], axis=2))
    packed = BytesIO()
    image.save(packed, "JPEG", quality=95)
    return packed.getvalue()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two classes of two images, and two validation images; one of them is grey."""
    for at, name in enumerate((FISH, FROG)):
        inside = tmp_path / ROOT / "train" / name / "images"
        inside.mkdir(parents=True)
        (inside.parent / f"{name}_boxes.txt").write_text(f"{name}_0.JPEG\t0\t0\t9\t9\n")
        for number in (10, 9):
            mode = "L" if (at, number) == (1, 9) else "RGB"
            (inside / f"{name}_{number}.JPEG").write_bytes(jpeg(1 + at, mode))
    (tmp_path / ROOT / "train" / ".DS_Store").write_bytes(b"x")
    inside = tmp_path / ROOT / "val" / "images"
    inside.mkdir(parents=True)
    for number in (0, 1):
        (inside / f"val_{number}.JPEG").write_bytes(jpeg(2))
    notes = f"val_0.JPEG\t{FROG}\t0\t32\t44\t62\nval_1.JPEG\t{FISH}\t1\t1\t2\t2\n"
    (inside.parent / "val_annotations.txt").write_text(notes)
    return tmp_path


def held(root: Path, active: bool = False, **options: Any) -> Holding:
    data = TinyImageNetData(kind="tiny-imagenet", path=ROOT, **options)
    return read_holding(data, folder=root, classes=(FISH, FROG), active=active)


def refusal(root: Path, active: bool = False, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        held(root, active, **options)
    return f"{caught.value} | {caught.value.hint}"


def notes(root: Path) -> Path:
    return root / ROOT / "val" / "val_annotations.txt"


def first(root: Path) -> Path:
    return root / ROOT / "train" / FISH / "images" / f"{FISH}_9.JPEG"


def test_images_and_labels(root: Path) -> None:
    holding = held(root, active=True, label=True)
    assert [each.decode() for each in holding.ids] == [
        f"{FISH}_9.JPEG", f"{FISH}_10.JPEG", f"{FROG}_9.JPEG", f"{FROG}_10.JPEG",
        "val_0.JPEG", "val_1.JPEG",
    ]  # fmt: skip
    assert holding.in_test.tolist() == [False] * 4 + [True] * 2
    assert holding.labels is not None
    assert holding.images is not None
    assert holding.labels.tolist() == [0, 0, 1, 1, 1, 0]
    assert (holding.images.shape, holding.images.dtype) == ((6, 3, 64, 64), np.float32)
    slope = np.linspace(0, 40, 64)
    red = (slope[:, None] + slope[None]) / 255
    assert np.abs(holding.images[0, 0] - red).max() < 0.05
    assert np.abs(holding.images[0, 2]).max() < 0.05


def test_grey_images_have_three_equal_channels(root: Path) -> None:
    images = held(root).images
    assert images is not None
    assert (images[2, 0] == images[2, 1]).all()
    assert (images[2, 0] == images[2, 2]).all()


def test_image_halves_equal_the_whole_image(root: Path) -> None:
    whole = held(root)
    left, right = (held(root, part=ImagePart(columns=span)) for span in ((0, 32), (32, 64)))
    assert left.images is not None
    assert right.images is not None
    np.testing.assert_equal(np.concatenate([left.images, right.images], axis=3), whole.images)
    assert list(left.ids) == list(whole.ids)


def test_labels_alone_open_no_image(root: Path) -> None:
    first(root).write_bytes(b"no image")
    holding = held(root, active=True, label=True, features=False)
    assert (holding.images, len(holding)) == (None, 6)


@pytest.mark.parametrize(
    "content", [b"", b"GIF89a", jpeg(1)[:-400], b"\xff\xd8\xff\xe0" + b"x" * 99]
)
def test_file_that_is_no_whole_jpeg_is_refused(root: Path, content: bytes) -> None:
    first(root).write_bytes(content)
    assert f"{FISH}_9.JPEG is not a complete JPEG image | unpack" in refusal(root)


def test_image_of_another_format_is_refused(root: Path) -> None:
    packed = BytesIO()
    Image.new("RGB", (64, 64)).save(packed, "PNG")
    first(root).write_bytes(packed.getvalue())
    assert "is not a complete JPEG image" in refusal(root)


def test_image_of_another_size_is_refused_before_it_is_unpacked(root: Path) -> None:
    first(root).write_bytes(jpeg(1, side=65))
    assert "has 65 x 65 pixels | expected 64 x 64" in refusal(root)


def test_file_above_the_limit_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parties.data.sources.tiny_imagenet_source.LARGEST", 600)
    assert "has more than 0 KiB" in refusal(root)


def test_more_images_than_memory_is_given_are_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.data.sources.tiny_imagenet_source.MAX_BYTES", 10_000)
    assert "4 images of tiny-imagenet-200 need more than" in refusal(root)


def test_image_that_is_a_link_out_of_the_folder_is_refused(root: Path) -> None:
    outside = root.parent / "outside.JPEG"
    outside.write_bytes(jpeg(1))
    first(root).unlink()
    first(root).symlink_to(outside)
    assert "is outside the data folder" in refusal(root)


def test_absent_folder_is_refused_with_its_origin(tmp_path: Path) -> None:
    error = refusal(tmp_path, origin="https://example.org/tiny")
    assert "no file tiny-imagenet-200/val/val_annotations.txt" in error
    assert "download the file from https://example.org/tiny" in error


def test_folder_without_classes_is_refused(root: Path) -> None:
    (root / ROOT / "train").rename(root / ROOT / "elsewhere")
    assert "cannot read" in refusal(root)
    (root / ROOT / "train").mkdir()
    assert "no class folder with images" in refusal(root)


def test_validation_image_without_a_note_is_refused(root: Path) -> None:
    notes(root).write_text(f"val_0.JPEG\t{FROG}\t0\n")
    assert "does not list 1 images of tiny-imagenet-200/val/images" in refusal(root)


def test_note_without_an_image_is_refused(root: Path) -> None:
    (root / ROOT / "val" / "images" / "val_1.JPEG").unlink()
    assert "lists 1 images that do not exist" in refusal(root)


@pytest.mark.parametrize(
    ("line", "words"), [("val_1.JPEG", "line 3 has no class"), (f"val_0.JPEG\t{FISH}", "twice")]
)
def test_damaged_notes_are_refused(root: Path, line: str, words: str) -> None:
    with notes(root).open("a") as file:
        file.write(line + "\n")
    assert words in refusal(root)


def test_class_outside_the_agreement_is_refused(root: Path) -> None:
    notes(root).write_text(f"val_0.JPEG\t{FROG}\nval_1.JPEG\tn00000000\n")
    error = refusal(root, active=True, label=True)
    assert "an unknown label in 1 image of tiny-imagenet-200/val (1)" in error


def test_part_outside_the_images_is_refused(root: Path) -> None:
    assert "is outside the images" in refusal(root, part=ImagePart(rows=(0, 65)))


def test_id_columns_are_refused(root: Path) -> None:
    assert "no ID columns" in refusal(root, id=IdColumns(columns=("id",)))


def test_settings_without_features_and_labels_are_refused(root: Path) -> None:
    assert "neither images nor labels" in refusal(root, features=False)
