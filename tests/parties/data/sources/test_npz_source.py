"""Tests of the NumPy source: plain arrays only, and each error."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reading import held, refusal

from parties.data.sources.npz_source import NumpyData
from parties.data.sources.source import IdColumns

FEATURES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


def npz(folder: Path, arrays: dict[str, Any], **options: Any) -> NumpyData:
    np.savez(folder / "rows.npz", allow_pickle=True, **arrays)
    return NumpyData(kind="numpy", path=Path("rows.npz"), **options)


def test_npz_rows(tmp_path: Path) -> None:
    arrays = {"features": FEATURES, "y": np.array([3, 0, 3]), "pid": np.array(["a", "b", "c"])}
    data = npz(tmp_path, arrays, label="y", id=IdColumns(columns=("pid",)))
    holding = held(tmp_path, data, active=True)
    assert list(holding.ids) == [b"a", b"b", b"c"]
    assert holding.table is not None
    assert holding.labels is not None
    assert holding.labels.tolist() == [3, 0, 3]
    np.testing.assert_equal(holding.table.numbers, FEATURES)


def test_npz_rows_without_ids_are_named_by_row(tmp_path: Path) -> None:
    holding = held(tmp_path, npz(tmp_path, {"features": FEATURES}))
    assert list(holding.ids) == [b"rows.npz:0", b"rows.npz:1", b"rows.npz:2"]


def test_npz_with_labels_only(tmp_path: Path) -> None:
    data = npz(tmp_path, {"y": np.array(["1", "2"])}, label="y", features=None)
    holding = held(tmp_path, data, active=True)
    assert (holding.table, len(holding)) == (None, 2)


def test_npz_with_test_archive(tmp_path: Path) -> None:
    np.savez(tmp_path / "test.npz", features=FEATURES)
    holding = held(tmp_path, npz(tmp_path, {"features": FEATURES}, test_path=Path("test.npz")))
    assert holding.in_test.tolist() == [False] * 3 + [True] * 3


def test_pickled_array_is_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, npz(tmp_path, {"features": np.array([{}], dtype=object)}))
    assert "is not an archive of plain arrays" in error


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", pickle.dumps([1, 2]), b"\x93NUMPY"])
def test_file_that_is_no_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rows.npz").write_bytes(content)
    data = NumpyData(kind="numpy", path=Path("rows.npz"))
    assert "is not an archive of plain arrays" in refusal(tmp_path, data)


def test_archive_that_decompresses_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.data.sources.files.MAX_RATIO", 0)
    monkeypatch.setattr("parties.data.sources.files._SMALL", 100)
    assert "unpacks to 176" in refusal(tmp_path, npz(tmp_path, {"features": FEATURES}))


def test_missing_array_is_refused_with_the_available_arrays(tmp_path: Path) -> None:
    error = refusal(tmp_path, npz(tmp_path, {"x": FEATURES}))
    assert "no array 'features' | the archive has x" in error


def test_arrays_of_other_lengths_are_refused(tmp_path: Path) -> None:
    data = npz(tmp_path, {"features": FEATURES, "y": np.array([1, 2])}, label="y")
    assert "differ in length, or are empty: features [3, 2], y [2]" in refusal(tmp_path, data, True)


def test_archive_without_rows_is_refused(tmp_path: Path) -> None:
    assert "or are empty" in refusal(tmp_path, npz(tmp_path, {"features": np.empty((0, 2))}))


def test_float_labels_are_refused(tmp_path: Path) -> None:
    data = npz(tmp_path, {"y": np.array([1.0, 2.0])}, label="y", features=None)
    assert "array 'y' of rows.npz cannot be used: it has type float64 and shape [2]" in refusal(
        tmp_path, data, True
    )


@pytest.mark.parametrize("bad", [np.array([1.0]), np.array([["x"]]), np.empty((2, 0))])
def test_features_of_another_shape_or_type_are_refused(tmp_path: Path, bad: Any) -> None:
    assert "features must be numbers of shape [rows, columns]" in refusal(
        tmp_path, npz(tmp_path, {"features": bad})
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_in_an_array_are_refused_with_rows(tmp_path: Path, bad: float) -> None:
    features = FEATURES.copy()
    features[1, 0] = bad
    error = refusal(tmp_path, npz(tmp_path, {"features": features}))
    assert "array 'features' has NaN or infinity in 1 row of rows.npz (1)" in error
