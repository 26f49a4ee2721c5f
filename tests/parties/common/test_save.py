"""Canonical JSON, atomic writes, and the counter of a party's starts."""

import json
import math
import os
import stat
from pathlib import Path

import pytest

from parties.common.atomic_file import write_atomically
from parties.common.errors import StorageError
from parties.common.json_files import canonical_json, next_incarnation


def test_canonical_json_is_sorted_compact_and_ends_in_a_newline() -> None:
    written = canonical_json({"b": [1, 2.5, None], "a": {"é": True}})
    assert written == '{"a":{"é":true},"b":[1,2.5,null]}\n'.encode()


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    content = {"one": 1, "two": {"x": [1.5], "y": None}}
    assert canonical_json(content) == canonical_json(dict(reversed(content.items())))
    assert json.loads(canonical_json(content)) == content


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_number_is_refused_by_its_path(value: float) -> None:
    with pytest.raises(ValueError, match=r"\$\.methods\[1\]\.test"):
        canonical_json({"methods": [{"test": 1.0}, {"test": value}]})


def test_failed_write_keeps_the_old_file_and_leaves_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report"
    target.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space"):
        write_atomically(target, b"new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_file_is_on_the_disk_before_its_new_name_and_the_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second write to the disk, a power cut could bring the old file back."""
    target, synced, fsync = tmp_path / "report", [], os.fsync
    target.write_text("old")

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.fstat(descriptor).st_ino, target.read_text()))

    monkeypatch.setattr("os.fsync", watched)
    write_atomically(target, b"new")
    file, folder = target.stat().st_ino, tmp_path.stat().st_ino
    assert synced == [(file, "old"), (folder, "new")]


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"content")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_each_start_increments_the_incarnation(tmp_path: Path) -> None:
    assert [next_incarnation(tmp_path / "state") for _ in range(3)] == [1, 2, 3]


def test_a_damaged_incarnation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "incarnation").write_text("many")
    with pytest.raises(StorageError, match="cannot use"):
        next_incarnation(tmp_path)
