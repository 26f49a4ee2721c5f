"""Tests of the SVHN source on small MATLAB files, and of each error."""

import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import held, refusal
from scipy.io import savemat

from parties.data.sources.images import ImagePart
from parties.data.sources.svhn_source import SvhnData

GENERATOR = np.random.default_rng(0)
IMAGES = GENERATOR.integers(0, 256, (32, 32, 3, 4), np.uint8)
LABELS = np.array([[10], [1], [9], [10]], np.uint8)


def files(folder: Path, **options: Any) -> SvhnData:
    savemat(folder / "train_32x32.mat", {"X": IMAGES[..., :3], "y": LABELS[:3]})
    savemat(folder / "test_32x32.mat", {"X": IMAGES[..., 3:], "y": LABELS[3:]}, do_compression=True)
    return SvhnData(
        kind="svhn", train=(Path("train_32x32.mat"),), test=Path("test_32x32.mat"), **options
    )


def test_label_ten_is_digit_zero_and_channels_come_first(tmp_path: Path) -> None:
    holding = held(tmp_path, files(tmp_path, label=True), active=True)
    assert list(holding.ids) == [
        b"train_32x32:0", b"train_32x32:1", b"train_32x32:2", b"test_32x32:0",
    ]  # fmt: skip
    assert holding.in_test.tolist() == [False, False, False, True]
    assert holding.labels is not None
    assert holding.images is not None
    assert holding.labels.tolist() == [0, 1, 9, 0]
    np.testing.assert_equal(holding.images, np.transpose(IMAGES, (3, 2, 0, 1)).astype("f4") / 255)


def test_a_party_s_columns(tmp_path: Path) -> None:
    holding = held(tmp_path, files(tmp_path, part=ImagePart(columns=(16, 32))))
    assert holding.images is not None
    assert holding.images.shape == (4, 3, 32, 16)


def matlab(**arrays: Any) -> bytes:
    written = BytesIO()
    savemat(written, arrays)
    return written.getvalue()


WRONG = {
    "no MATLAB file": (b"X" * 500, "is not a MATLAB file of images"),
    "empty": (b"", "is not a MATLAB file of images"),
    "cut off": (
        matlab(X=IMAGES, y=LABELS)[:9000],
        r"not a MATLAB file|and an array y of shape \[\]",
    ),
    "no labels": (matlab(X=IMAGES), r"X of shape \[32, 32, 3, 4\] and an array y of shape \[\]"),
    "other rows": (matlab(X=IMAGES, y=LABELS[:3]), r"and an array y of shape \[3, 1\]"),
    "full numbers": (matlab(X=IMAGES[:, :16], y=LABELS), r"X of shape \[32, 16, 3, 4\]"),
    "real numbers": (matlab(X=IMAGES / 255, y=LABELS), "has an array X of type float64"),
}


@pytest.mark.parametrize("case", WRONG)
def test_files_that_are_not_svhn_are_refused(tmp_path: Path, case: str) -> None:
    data = files(tmp_path, label=True)
    content, message = WRONG[case]
    (tmp_path / "train_32x32.mat").write_bytes(content)
    assert re.search(message, refusal(tmp_path, data, active=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": False}, "neither images nor labels"),
        ({"test": Path("more/train_32x32.mat")}, "two files have the same name"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    data = files(tmp_path).model_copy(update=options)
    assert re.search(message, refusal(tmp_path, data))
