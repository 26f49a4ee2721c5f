"""Bucket stores: results are valid for one agreement and one set of rows, and never partial."""

import stat
from pathlib import Path

import numpy as np
import pytest

from parties.common.errors import StorageError
from parties.vertical.alignment.bucket_store import (
    BucketStore,
    FolderBucketStore,
    MemoryBucketStore,
)

KEY, OTHER = b"k" * 32, b"o" * 32


def rows(*numbers: int) -> np.ndarray:
    return np.repeat(np.array(numbers, np.uint8), 4).reshape(-1, 4)


def completed(folder: Path, count: int) -> FolderBucketStore:
    store = FolderBucketStore(folder, KEY)
    store.begin(0)
    for bucket in range(count):
        store.write_result(bucket, rows(bucket, bucket))
    return store


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BucketStore:
    return MemoryBucketStore() if request.param == "memory" else completed(tmp_path / "psi", 0)


def test_rows_added_in_parts_are_read_as_one(store: BucketStore) -> None:
    store.add_rows(3, rows(1, 2))
    store.add_rows(4, rows(9))
    store.add_rows(3, rows(5))
    assert np.array_equal(store.read_rows(3, 4), rows(1, 2, 5))
    assert store.read_rows(0, 4).shape == (0, 4)


def test_results_are_read_back_even_if_empty(store: BucketStore) -> None:
    store.write_result(0, rows(7, 8))
    store.write_result(1, rows())
    assert np.array_equal(store.read_result(0, 4), rows(7, 8))
    assert store.read_result(1, 4).shape == (0, 4)


def test_new_start_sees_completed_buckets(tmp_path: Path) -> None:
    completed(tmp_path / "psi", 3)
    again = FolderBucketStore(tmp_path / "psi", KEY)
    assert again.completed == 3
    again.begin(3)
    assert np.array_equal(again.read_result(2, 4), rows(2, 2))


def test_other_agreement_or_rows_invalidate_the_store(tmp_path: Path) -> None:
    completed(tmp_path / "psi", 3)
    other = FolderBucketStore(tmp_path / "psi", OTHER)
    assert other.completed == 0
    other.begin(0)
    assert FolderBucketStore(tmp_path / "psi", KEY).completed == 0
    assert {path.name for path in (tmp_path / "psi").iterdir()} == {"key"}


def test_results_after_the_common_progress_are_removed(tmp_path: Path) -> None:
    completed(tmp_path / "psi", 5)
    again = FolderBucketStore(tmp_path / "psi", KEY)
    again.begin(2)
    assert again.completed == FolderBucketStore(tmp_path / "psi", KEY).completed == 2


def test_rows_of_an_earlier_start_are_written_again(tmp_path: Path) -> None:
    first = completed(tmp_path / "psi", 1)
    first.add_rows(0, rows(1))
    again = FolderBucketStore(tmp_path / "psi", KEY)
    again.begin(1)
    again.add_rows(0, rows(2))
    assert np.array_equal(again.read_rows(0, 4), rows(2))


def test_completed_buckets_end_at_the_first_gap(tmp_path: Path) -> None:
    completed(tmp_path / "psi", 4)
    (tmp_path / "psi" / "result-00001").unlink()
    assert FolderBucketStore(tmp_path / "psi", KEY).completed == 1


def test_more_buckets_than_completed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="completed buckets disappeared"):
        completed(tmp_path / "psi", 1).begin(2)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    store = completed(tmp_path / "psi", 1)
    (tmp_path / "psi" / "result-00000").write_bytes(b"12345")
    with pytest.raises(StorageError, match="is damaged"):
        store.read_result(0, 4)


def test_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    completed(tmp_path / "psi", 1).add_rows(0, rows(1))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "psi").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "psi").stat().st_mode) == 0o700


def test_unusable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "psi").write_text("a file")
    with pytest.raises(StorageError, match="cannot use"):
        FolderBucketStore(tmp_path / "psi", KEY).begin(0)


def test_removed_store_has_no_files(tmp_path: Path) -> None:
    completed(tmp_path / "psi", 1).remove()
    assert not (tmp_path / "psi").exists()
    FolderBucketStore(tmp_path / "psi", KEY).remove()
