"""Checkpoints: incomplete, foreign and damaged ones are not used; pruned ones are gone."""

import json
from pathlib import Path

import pytest
import torch

from parties.common.errors import IntegrityError, StorageError
from parties.session.checkpoint import CheckpointContent, Checkpoints
from parties.session.handshake import NO_CHECKPOINTS

RUN, OTHER = b"r" * 16, b"o" * 16
AGREEMENT = '{"seed":1,"training":{"epochs":5}}'


def store(folder: Path, **changes: str) -> Checkpoints:
    plan = {"party": "shop", "agreement": AGREEMENT, "data": "d", **changes}
    return Checkpoints(folder / "checkpoints", **plan)


def content(number: int) -> CheckpointContent:
    changing = {"weights": torch.full((40, 3), float(number))}
    return CheckpointContent(
        {"number": number}, {"model": changing, "rows": {"map": torch.arange(99)}}
    )


@pytest.fixture
def saved(tmp_path: Path) -> Checkpoints:
    """Checkpoints 1, 2 and 3 were written; 2 and 3 are left."""
    ours = store(tmp_path)
    for number in (1, 2, 3):
        ours.write(number, RUN, content(number))
    return ours


def files(ours: Checkpoints, suffix: str) -> list[Path]:
    return sorted(ours.folder.glob(f"*.{suffix}"))


def test_checkpoint_reads_back_as_written(saved: Checkpoints) -> None:
    assert saved.offer().numbers == (2, 3)
    read = saved.read(3)
    assert read.values == {"number": 3}
    assert torch.equal(read.tensors["model"]["weights"], content(3).tensors["model"]["weights"])


def test_offer_is_empty_without_a_checkpoint(tmp_path: Path) -> None:
    assert store(tmp_path).offer() == NO_CHECKPOINTS


def test_unchanged_tensors_are_written_once(saved: Checkpoints) -> None:
    assert len(files(saved, "safetensors")) == 3  # two models, one row map


def test_only_the_owner_may_read_checkpoints(saved: Checkpoints) -> None:
    assert all(path.stat().st_mode & 0o077 == 0 for path in saved.folder.iterdir())


def test_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(StorageError, match=r"cannot use the folder .*checkpoints: File exists"):
        store(tmp_path).write(1, RUN, content(1))


def test_pruning_removes_older_checkpoints_and_their_files(saved: Checkpoints) -> None:
    (saved.folder / ".000002.json.tmp").touch()  # left by a process that was killed while it wrote
    (saved.folder / "copy.json").touch()  # a file of the user
    saved.prune(3)
    assert not list(saved.folder.glob(".*.tmp"))
    (saved.folder / "copy.json").unlink()
    assert saved.offer().numbers == (3,)
    assert len(files(saved, "safetensors")) == 2


def test_clear_removes_the_folder(saved: Checkpoints) -> None:
    saved.clear()
    assert not saved.folder.exists()


def flip(path: Path, place: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_manifest_with_a_flipped_bit_falls_back_to_the_previous_checkpoint(
    tmp_path: Path, saved: Checkpoints, place: int
) -> None:
    newest = files(saved, "json")[-1]
    flip(newest, place % newest.stat().st_size)
    assert store(tmp_path).offer().numbers == (2,)


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_truncated_manifest_falls_back_to_the_previous_checkpoint(
    tmp_path: Path, saved: Checkpoints, size: int
) -> None:
    newest = files(saved, "json")[-1]
    newest.write_bytes(newest.read_bytes()[:size])
    assert store(tmp_path).offer().numbers == (2,)


def tensor_files_of_newest(ours: Checkpoints) -> list[str]:
    return sorted(manifest(files(ours, "json")[-1])["files"].values())


def new_tensor_file(ours: Checkpoints) -> Path:
    """The tensor file that checkpoint 3 uses and checkpoint 2 does not."""
    digests = [set(manifest(path)["files"].values()) for path in files(ours, "json")]
    (name,) = digests[1] - digests[0]
    return ours.folder / f"{name}.safetensors"


def manifest(path: Path) -> dict[str, dict[str, str]]:
    read: dict[str, dict[str, str]] = json.loads(json.loads(path.read_text())["manifest"])
    return read


@pytest.mark.parametrize("place", range(0, 480, 37))
def test_tensors_with_a_flipped_bit_fall_back_to_the_previous_checkpoint(
    tmp_path: Path, saved: Checkpoints, place: int
) -> None:
    flip(new_tensor_file(saved), place)
    assert store(tmp_path).offer().numbers == (2,)


def test_missing_tensors_fall_back_to_the_previous_checkpoint(
    tmp_path: Path, saved: Checkpoints
) -> None:
    new_tensor_file(saved).unlink()
    assert store(tmp_path).offer().numbers == (2,)


def test_trailing_bytes_fall_back_to_the_previous_checkpoint(
    tmp_path: Path, saved: Checkpoints
) -> None:
    path = new_tensor_file(saved)
    path.write_bytes(path.read_bytes() + b"\0")
    assert store(tmp_path).offer().numbers == (2,)


def test_renamed_checkpoint_is_not_offered(tmp_path: Path, saved: Checkpoints) -> None:
    files(saved, "json")[-1].rename(saved.folder / "000009.json")
    assert store(tmp_path).offer().numbers == (2,)


def test_swapped_tensor_files_are_refused(tmp_path: Path, saved: Checkpoints) -> None:
    first, second = (saved.folder / f"{name}.safetensors" for name in tensor_files_of_newest(saved))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    with pytest.raises(IntegrityError, match="is damaged"):
        store(tmp_path).offer()  # each checkpoint uses one of the two files


def test_run_does_not_start_when_all_checkpoints_are_damaged(
    tmp_path: Path, saved: Checkpoints
) -> None:
    for path in files(saved, "json"):
        path.write_text("{}")
    with pytest.raises(IntegrityError, match="is damaged") as refused:
        store(tmp_path).offer()
    assert "--begin fresh" in refused.value.hint


def test_pickle_in_place_of_tensors_is_not_loaded(tmp_path: Path, saved: Checkpoints) -> None:
    torch.save({"weights": torch.ones(3)}, new_tensor_file(saved))
    assert store(tmp_path).offer().numbers == (2,)


def test_damaged_file_is_written_again(tmp_path: Path, saved: Checkpoints) -> None:
    flip(new_tensor_file(saved), 90)
    ours = store(tmp_path)
    ours.write(3, RUN, content(3))
    assert store(tmp_path).offer().numbers == (2, 3)


def test_checkpoints_of_an_earlier_run_are_not_offered(tmp_path: Path, saved: Checkpoints) -> None:
    saved.write(4, OTHER, content(4))
    assert store(tmp_path).offer().run == OTHER
    assert store(tmp_path).offer().numbers == (4,)


def test_other_agreement_is_refused_and_the_difference_named(
    tmp_path: Path, saved: Checkpoints
) -> None:
    changed = store(tmp_path, agreement=AGREEMENT.replace("5", "6"))
    with pytest.raises(StorageError, match=r"training\.epochs was 5, is 6") as refused:
        changed.offer()
    assert "--begin fresh" in refused.value.hint


def test_other_data_is_refused(tmp_path: Path, saved: Checkpoints) -> None:
    with pytest.raises(IntegrityError, match="used other data of shop, or went on from"):
        store(tmp_path, data="e").offer()


@pytest.mark.parametrize("change", [{"data": "e"}, {"agreement": "{}"}])
def test_checkpoint_before_training_does_not_block_a_changed_run(
    tmp_path: Path, change: dict[str, str]
) -> None:
    store(tmp_path).write(1, RUN, content(1))
    assert store(tmp_path, **change).offer() == NO_CHECKPOINTS


def test_checkpoints_of_another_party_are_refused(tmp_path: Path, saved: Checkpoints) -> None:
    with pytest.raises(
        IntegrityError, match="belong to the party shop; expected checkpoints of bank"
    ):
        store(tmp_path, party="bank").offer()


def test_checkpoints_of_a_newer_format_are_refused(
    tmp_path: Path, saved: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.session.checkpoint.FORMAT", 4)
    saved.write(4, RUN, content(4))
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="have format 4, expected 3"):
        store(tmp_path).offer()
