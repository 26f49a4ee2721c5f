"""Checkpoints: whole or not there, of this run or refused, and never brought back once settled."""

import json
from pathlib import Path

import pytest
import torch

from parties.common.errors import IntegrityError, StorageError
from parties.session.checkpoint import Checkpoints, Content
from parties.session.checkpoint_offer import NOTHING

RUN, OTHER = b"r" * 16, b"o" * 16
AGREEMENT = '{"seed":1,"training":{"epochs":5}}'


def store(folder: Path, **changes: str) -> Checkpoints:
    plan = {"party": "shop", "agreement": AGREEMENT, "data": "d", **changes}
    return Checkpoints(folder / "checkpoints", **plan)


def content(number: int) -> Content:
    changing = {"weights": torch.full((40, 3), float(number))}
    return Content({"number": number}, {"model": changing, "rows": {"map": torch.arange(99)}})


@pytest.fixture
def held(tmp_path: Path) -> Checkpoints:
    """Checkpoints 1, 2 and 3 were written; 2 and 3 are left."""
    ours = store(tmp_path)
    for number in (1, 2, 3):
        ours.write(number, RUN, content(number))
    return ours


def files(ours: Checkpoints, suffix: str) -> list[Path]:
    return sorted(ours.folder.glob(f"*.{suffix}"))


def test_what_was_written_is_read(held: Checkpoints) -> None:
    assert held.held().numbers == (2, 3)
    read = held.read(3)
    assert read.values == {"number": 3}
    assert torch.equal(read.tensors["model"]["weights"], content(3).tensors["model"]["weights"])


def test_nothing_is_held_before_the_first(tmp_path: Path) -> None:
    assert store(tmp_path).held() == NOTHING


def test_what_did_not_change_is_written_once(held: Checkpoints) -> None:
    assert len(files(held, "safetensors")) == 3  # two models, one row map


def test_only_this_account_may_read_them(held: Checkpoints) -> None:
    assert all(path.stat().st_mode & 0o077 == 0 for path in held.folder.iterdir())


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file")
    with pytest.raises(StorageError, match=r"cannot use .*checkpoints: File exists"):
        store(tmp_path).write(1, RUN, content(1))


def test_settling_leaves_nothing_of_older_ones(held: Checkpoints) -> None:
    (held.folder / ".000002.json.tmp").touch()  # of a process that was killed while it wrote
    (held.folder / "copy.json").touch()  # somebody's own
    held.settle(3)
    assert not list(held.folder.glob(".*.tmp"))
    (held.folder / "copy.json").unlink()
    assert held.held().numbers == (3,)
    assert len(files(held, "safetensors")) == 2


def test_clearing_leaves_nothing(held: Checkpoints) -> None:
    held.clear()
    assert not held.folder.exists()


def flip(path: Path, place: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[place] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize("place", range(0, 200, 7))
def test_manifest_with_a_flipped_bit_falls_back_to_the_one_before(
    tmp_path: Path, held: Checkpoints, place: int
) -> None:
    newest = files(held, "json")[-1]
    flip(newest, place % newest.stat().st_size)
    assert store(tmp_path).held().numbers == (2,)


@pytest.mark.parametrize("size", [0, 1, 7, 100])
def test_truncated_manifest_falls_back_to_the_one_before(
    tmp_path: Path, held: Checkpoints, size: int
) -> None:
    newest = files(held, "json")[-1]
    newest.write_bytes(newest.read_bytes()[:size])
    assert store(tmp_path).held().numbers == (2,)


def blobs_of_newest(ours: Checkpoints) -> list[str]:
    return sorted(manifest(files(ours, "json")[-1])["files"].values())


def only_of_newest(ours: Checkpoints) -> Path:
    """The tensors that checkpoint 3 has and checkpoint 2 has not."""
    blobs = [set(manifest(path)["files"].values()) for path in files(ours, "json")]
    (name,) = blobs[1] - blobs[0]
    return ours.folder / f"{name}.safetensors"


def manifest(path: Path) -> dict[str, dict[str, str]]:
    read: dict[str, dict[str, str]] = json.loads(json.loads(path.read_text())["manifest"])
    return read


@pytest.mark.parametrize("place", range(0, 480, 37))
def test_tensors_with_a_flipped_bit_fall_back_to_the_one_before(
    tmp_path: Path, held: Checkpoints, place: int
) -> None:
    flip(only_of_newest(held), place)
    assert store(tmp_path).held().numbers == (2,)


def test_tensors_that_are_gone_fall_back_to_the_one_before(
    tmp_path: Path, held: Checkpoints
) -> None:
    only_of_newest(held).unlink()
    assert store(tmp_path).held().numbers == (2,)


def test_trailing_bytes_fall_back_to_the_one_before(tmp_path: Path, held: Checkpoints) -> None:
    path = only_of_newest(held)
    path.write_bytes(path.read_bytes() + b"\0")
    assert store(tmp_path).held().numbers == (2,)


def test_renamed_checkpoint_is_passed_over(tmp_path: Path, held: Checkpoints) -> None:
    files(held, "json")[-1].rename(held.folder / "000009.json")
    assert store(tmp_path).held().numbers == (2,)


def test_tensors_that_were_swapped_are_refused(tmp_path: Path, held: Checkpoints) -> None:
    first, second = (held.folder / f"{name}.safetensors" for name in blobs_of_newest(held))
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    with pytest.raises(IntegrityError, match="is damaged"):
        store(tmp_path).held()  # both hold one of the two


def test_when_all_are_damaged_nothing_begins_anew_by_itself(
    tmp_path: Path, held: Checkpoints
) -> None:
    for path in files(held, "json"):
        path.write_text("{}")
    with pytest.raises(IntegrityError, match="is damaged") as refused:
        store(tmp_path).held()
    assert "--begin fresh" in refused.value.hint


def test_pickle_in_place_of_tensors_is_never_opened(tmp_path: Path, held: Checkpoints) -> None:
    torch.save({"weights": torch.ones(3)}, only_of_newest(held))
    assert store(tmp_path).held().numbers == (2,)


def test_damaged_file_is_written_again_and_not_believed(tmp_path: Path, held: Checkpoints) -> None:
    flip(only_of_newest(held), 90)
    ours = store(tmp_path)
    ours.write(3, RUN, content(3))
    assert store(tmp_path).held().numbers == (2, 3)


def test_checkpoints_of_an_earlier_run_do_not_count(tmp_path: Path, held: Checkpoints) -> None:
    held.write(4, OTHER, content(4))
    assert store(tmp_path).held().run == OTHER
    assert store(tmp_path).held().numbers == (4,)


def test_other_agreement_is_refused_with_what_differs(tmp_path: Path, held: Checkpoints) -> None:
    changed = store(tmp_path, agreement=AGREEMENT.replace("5", "6"))
    with pytest.raises(StorageError, match=r"training\.epochs was 5, is 6") as refused:
        changed.held()
    assert "--begin fresh" in refused.value.hint


def test_other_data_is_refused(tmp_path: Path, held: Checkpoints) -> None:
    with pytest.raises(IntegrityError, match="the data of shop is not what the unfinished run"):
        store(tmp_path, data="e").held()


@pytest.mark.parametrize("change", [{"data": "e"}, {"agreement": "{}"}])
def test_a_run_that_learned_nothing_yet_stands_in_nobody_s_way(
    tmp_path: Path, change: dict[str, str]
) -> None:
    store(tmp_path).write(1, RUN, content(1))
    assert store(tmp_path, **change).held() == NOTHING


def test_checkpoints_of_another_party_are_refused(tmp_path: Path, held: Checkpoints) -> None:
    with pytest.raises(IntegrityError, match="are of shop, not bank"):
        store(tmp_path, party="bank").held()


def test_checkpoints_of_a_newer_format_are_refused(
    tmp_path: Path, held: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("parties.session.checkpoint.FORMAT", 2)
    held.write(4, RUN, content(4))
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="have format 2, not 1"):
        store(tmp_path).held()
