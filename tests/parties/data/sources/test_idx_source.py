"""Tests of the idx source on small files in the original format, and of each error."""

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import held, refusal

from parties.data.sources.idx_source import IdxData
from parties.data.sources.images import ImagePart
from parties.data.sources.source import IdColumns

PIXELS = np.arange(3 * 4 * 6, dtype=np.uint8).reshape(3, 4, 6)
LABELS = bytes([7, 0, 7])


def idx(array: bytes, *shape: int) -> bytes:
    return struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + array


IMAGE_FILE, LABEL_FILE = idx(PIXELS.tobytes(), 3, 4, 6), idx(LABELS, 3)


def files(folder: Path, images: bytes = IMAGE_FILE, labels: bytes = LABEL_FILE) -> IdxData:
    (folder / "images").write_bytes(images)
    (folder / "labels").write_bytes(labels)
    return IdxData(kind="idx", images=Path("images"), labels=Path("labels"))


@pytest.mark.parametrize("packed", [False, True])
def test_idx_images_and_labels(tmp_path: Path, packed: bool) -> None:
    both = IMAGE_FILE, LABEL_FILE
    data = files(tmp_path, *(map(gzip.compress, both) if packed else both))
    holding = held(tmp_path, data, active=True)
    assert holding.images is not None
    assert holding.labels is not None
    np.testing.assert_equal(holding.images, PIXELS[:, None].astype("f4") / 255)
    assert holding.labels.tolist() == [7, 0, 7]
    assert list(holding.ids) == [b"train:0", b"train:1", b"train:2"]


def test_idx_halves_and_labels_have_equal_ids(tmp_path: Path) -> None:
    files(tmp_path)
    common: dict[str, Any] = {"kind": "idx", "test_images": Path("images")}
    left = IdxData(images=Path("images"), part=ImagePart(columns=(0, 3)), **common)
    shop = IdxData(kind="idx", labels=Path("labels"), test_labels=Path("labels"))
    half, whole = held(tmp_path, left), held(tmp_path, shop, active=True)
    assert (
        half.ids == whole.ids == [b"%s:%d" % (x, n) for x in (b"train", b"test") for n in range(3)]
    )
    assert half.in_test.tolist() == whole.in_test.tolist() == [False] * 3 + [True] * 3
    assert half.images is not None
    assert half.images.shape == (6, 1, 4, 3)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("cut", [1, len(PIXELS.tobytes()), len(PIXELS.tobytes()) + 3])
def test_truncated_idx_file_is_refused(tmp_path: Path, pack: Any, cut: int) -> None:
    error = refusal(tmp_path, files(tmp_path, images=pack(IMAGE_FILE[:-cut])), True)
    assert "which needs 72 bytes" in error or "the header of images is truncated" in error


def test_truncated_or_damaged_gzip_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(IMAGE_FILE)
    damaged = packed[:20] + bytes([packed[20] ^ 0xFF]) + packed[21:]
    for content in (packed[:-9], packed[:30], damaged):
        assert "truncated or damaged" in refusal(tmp_path, files(tmp_path, images=content), True)


def test_idx_file_with_bytes_left_over_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, files(tmp_path, images=IMAGE_FILE + b"\0"), True)
    assert (
        "states the shape [3, 4, 6], which needs 72 bytes after the header, but the file has more"
        in error
    )


@pytest.mark.parametrize("images", [b"", b"\x89PNG", LABEL_FILE, b"\0\0\x0d\x03" + bytes(84)])
def test_wrong_magic_number_is_refused(tmp_path: Path, images: bytes) -> None:
    error = refusal(tmp_path, files(tmp_path, images=images), True)
    assert "is not an IDX file of images: its first four bytes are" in error


@pytest.mark.parametrize("shape", [(0, 4, 6), (2**31, 2**31, 4)])
def test_idx_file_of_no_or_endless_records_is_refused(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    error = refusal(tmp_path, files(tmp_path, images=idx(b"", *shape)), True)
    assert f"states the shape {list(shape)}" in error


def test_other_count_of_labels_than_images_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, files(tmp_path, labels=idx(b"\1\2", 2)), True)
    assert "images has 3 records and labels has 2 records" in error


def test_idx_label_that_is_no_class_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, files(tmp_path, labels=idx(bytes([7, 10, 0]), 3)), True)
    assert "an unknown label in 1 row of labels (1)" in error


def test_test_images_without_labels_are_refused(tmp_path: Path) -> None:
    data = files(tmp_path).model_copy(update={"test_images": Path("images")})
    assert "'test_labels' if and only if 'labels' is set" in refusal(tmp_path, data, True)


def test_test_images_of_another_size_are_refused(tmp_path: Path) -> None:
    files(tmp_path)
    (tmp_path / "other").write_bytes(idx(bytes(8), 2, 2, 2))
    data = IdxData(kind="idx", images=Path("images"), test_images=Path("other"))
    assert "differ in size" in refusal(tmp_path, data)


def test_id_columns_of_idx_files_are_refused(tmp_path: Path) -> None:
    data = IdxData(kind="idx", images=Path("images"), id=IdColumns(columns=("id",)))
    assert "no ID columns" in refusal(tmp_path, data)


def test_idx_settings_without_files_are_refused(tmp_path: Path) -> None:
    assert "name no idx file" in refusal(tmp_path, IdxData(kind="idx"))
