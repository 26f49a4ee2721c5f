"""Canonical JSON, atomic writes, and the counter of a party's starts."""

import json
import math
import os
import stat
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest
from recorded_disk import (
    NO_LOSS,
    Files,
    Loss,
    RecordedDisk,
    may_trace,
    read_calls,
    read_files,
    record_own_calls,
    wait_for_record,
    write_files,
)

from parties.common.atomic_file import make_folder, write_atomically
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


def test_names_of_new_folders_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, fsync = [], os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr("os.fsync", watched)
    make_folder(tmp_path / "a" / "b")
    assert sorted(synced) == sorted([tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino])
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


def _change_files(folder: Path, log: Path) -> None:
    """Replace one file atomically, and another one without fsync, in a recorded process."""
    record_own_calls(log)
    write_atomically(folder / "safe", b"new" * 1000)
    with (folder / "unsafe").open("wb") as file:
        file.write(b"new" * 1000)
    (folder / "gone").unlink()
    make_folder(folder / "made")
    write_atomically(folder / "made" / "file", b"new")
    (folder / "last").write_bytes(b"new")


@pytest.mark.slow
def test_loss_of_power_leaves_what_fsync_made_durable(tmp_path: Path) -> None:
    """A file has its old or its new content; a plain file may be lost, or half there."""
    if not may_trace(tmp_path):
        pytest.skip("no strace, or it may not trace a process")
    folder, log = tmp_path / "files", tmp_path / "calls"
    start: Files = {"gone": b"old", "safe": b"old", "unsafe": b"old"}
    write_files(folder, start)
    process = get_context("forkserver").Process(target=_change_files, args=(folder, log))
    process.start()
    process.join(60)
    wait_for_record(log)
    calls, seen = read_calls(log), dict[str, set[bytes | None]]()
    times = RecordedDisk(folder, start, calls).synchronisations()
    assert len(times) == 5  # of the two files, and of three folders
    for time in [*times, calls[-1].time + 1]:
        losses = [Loss(), Loss(names=True), Loss(data=True), NO_LOSS]
        for loss in [*losses, *(Loss(random=Random(seed)) for seed in range(20))]:
            disk = RecordedDisk(folder, start, calls)
            disk.advance(time, inclusive=False)
            for path, content in disk.files(loss).items():
                seen.setdefault(path, set()).add(content)
    disk.advance(time, inclusive=True)
    assert disk.files(NO_LOSS) == read_files(folder)
    assert seen["safe"] == {b"old", b"new" * 1000}
    assert seen["unsafe"] > {b"old", b"new" * 1000}
    assert len(seen["unsafe"]) > 5
    assert seen["gone"] == {b"old"}
    assert seen["made/file"] == {b"new"}
    assert seen["last"] == {b"", b"new"}
    final = disk.files(Loss())
    assert final == {"safe": b"new" * 1000, "unsafe": b"old", "made": None, "made/file": b"new"}


def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", b"content")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_each_start_increments_the_incarnation(tmp_path: Path) -> None:
    assert [next_incarnation(tmp_path / "state") for _ in range(3)] == [1, 2, 3]


def test_a_damaged_incarnation_is_refused(tmp_path: Path) -> None:
    (tmp_path / "incarnation").write_text("many")
    with pytest.raises(StorageError, match="cannot use"):
        next_incarnation(tmp_path)
