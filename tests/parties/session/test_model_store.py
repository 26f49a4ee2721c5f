"""The kept model: whatever is damaged, a wrong state is never taken for a right one."""

import errno
import os
import random
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from parties.common.errors import IntegrityError, StorageError
from parties.session.checkpoint import CheckpointContent
from parties.session.handshake import NO_CHECKPOINTS
from parties.session.store import model_store, sealing
from parties.session.store.model_store import ModelStore, VersionFacts
from parties.session.store.sealing import KEYS, KeyFile

RUN, SECOND = b"r" * 16, b"s" * 16
ARCHITECTURE = {"top": [3], "seed": 5}
TRAINED = VersionFacts("training", "2026-11-24T10:00:00Z")
REQUESTED = VersionFacts("requests", "2026-11-25T10:00:00Z", 1, ("01ARZ",), "retrain", {"a": 1})


def store(folder: Path, party: str = "shop", **architecture: Any) -> ModelStore:
    return ModelStore(folder, party, ARCHITECTURE | architecture, KeyFile(folder))


def content(number: int) -> CheckpointContent:
    return CheckpointContent({"number": number}, {"model": {"w": torch.full((3, 2), number)}})


def path(folder: Path, number: int) -> Path:
    return folder / "models" / f"{number:06}.sealed"


def written(folder: Path) -> ModelStore:
    """A store with the versions 1 and 2 of one run."""
    made = store(folder)
    made.write(1, RUN, content(1), TRAINED)
    made.write(2, RUN, content(2), REQUESTED)
    return made


def numbers(made: ModelStore) -> list[int]:
    return [each.number for each in made.files()]


def test_versions_are_read_back_and_checkpoints_are_pruned(tmp_path: Path) -> None:
    made = written(tmp_path)
    for number in (3, 4, 5):
        made.write(number, RUN, content(number))
    assert numbers(made) == [1, 2, 4, 5]
    found = store(tmp_path)
    assert found.offer().numbers == (1, 2, 4, 5)
    assert found.offer().run == RUN
    assert found.offer().kept == 5
    assert found.next_number() == 6
    newest = found.newest_version()
    assert newest is not None
    assert (newest.number, newest.version) == (2, REQUESTED)
    assert found.facts(1) == TRAINED
    assert found.facts(4) is None
    assert found.facts(9) is None
    back = found.read(4)
    assert back.values == {"number": 4}
    assert torch.equal(back.tensors["model"]["w"], content(4).tensors["model"]["w"])
    assert set(KeyFile(tmp_path).all()) == {f"model {each}" for each in (1, 2, 4, 5)}
    made.clear()
    assert numbers(made) == [1, 2, 4, 5]


def test_erasing_after_a_request_leaves_no_key_and_no_file(tmp_path: Path) -> None:
    made = written(tmp_path)
    made.write(3, RUN, content(3))
    made.prune(2, versions=True)
    assert numbers(made) == [2, 3]
    assert set(KeyFile(tmp_path).all()) == {"model 2", "model 3"}
    made.prune(2, 2)
    made.erase(2)
    assert numbers(made) == []
    assert not KeyFile(tmp_path).all()
    assert made.offer() == NO_CHECKPOINTS
    with pytest.raises(StorageError, match="no model is kept"):
        made.require()


def test_later_run_is_offered_alone(tmp_path: Path) -> None:
    made = written(tmp_path)
    made.write(3, SECOND, content(3), TRAINED)
    assert made.offer().numbers == (3,)
    assert made.offer().run == SECOND


def test_sealed_file_reveals_no_content(tmp_path: Path) -> None:
    made = store(tmp_path)
    made.write(1, RUN, CheckpointContent({"secret": "customer-4711"}), TRAINED)
    whole = path(tmp_path, 1).read_bytes()
    assert b"customer" not in whole
    assert path(tmp_path, 1).stat().st_mode & 0o777 == 0o600


def _expect_older(folder: Path) -> None:
    """Version 2 is not used: version 1 is offered, with its own content."""
    found = store(folder)
    assert found.offer().numbers == (1,)
    assert found.offer().kept == 2
    assert found.read(1).values == {"number": 1}
    newest = found.newest_version()
    assert newest is not None
    assert newest.version == TRAINED
    with pytest.raises(IntegrityError, match="version 2 of shop cannot be read"):
        found.read(2)


def test_every_changed_byte_of_the_header_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    whole = path(tmp_path, 2).read_bytes()
    for place in range(whole.index(b"\n") + 1):
        changed = bytes([whole[place] ^ 1])
        path(tmp_path, 2).write_bytes(whole[:place] + changed + whole[place + 1 :])
        _expect_older(tmp_path)


def test_changed_bytes_of_the_content_are_found(tmp_path: Path) -> None:
    written(tmp_path)
    whole, draw = path(tmp_path, 2).read_bytes(), random.Random(3)
    for _ in range(200):
        place = draw.randrange(whole.index(b"\n") + 1, len(whole))
        changed = bytes([whole[place] ^ draw.randrange(1, 256)])
        path(tmp_path, 2).write_bytes(whole[:place] + changed + whole[place + 1 :])
        _expect_older(tmp_path)


def test_truncated_and_longer_files_are_found(tmp_path: Path) -> None:
    written(tmp_path)
    whole = path(tmp_path, 2).read_bytes()
    lengths = [len(whole) * part // 50 for part in range(50)]
    for changed in [*(whole[:length] for length in lengths), whole + b"\0"]:
        path(tmp_path, 2).write_bytes(changed)
        _expect_older(tmp_path)


def test_swapped_files_are_found(tmp_path: Path) -> None:
    written(tmp_path)
    one, two = path(tmp_path, 1).read_bytes(), path(tmp_path, 2).read_bytes()
    path(tmp_path, 1).write_bytes(two)
    path(tmp_path, 2).write_bytes(one)
    with pytest.raises(IntegrityError, match=r"000001.sealed: it is damaged.*000002.sealed: it"):
        store(tmp_path).offer()
    assert store(tmp_path).newest_version() is None


def test_older_file_under_a_newer_number_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    shutil.copy(path(tmp_path, 1), path(tmp_path, 2))
    _expect_older(tmp_path)
    shutil.copy(path(tmp_path, 1), path(tmp_path, 9))
    found = store(tmp_path)
    assert found.offer().numbers == (1,)
    assert [each.fault for each in found.files()][2] == "its key is not in the key file"


def test_renamed_file_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    path(tmp_path, 2).rename(path(tmp_path, 3))
    found = store(tmp_path)
    assert found.offer().numbers == (1,)
    assert found.next_number() == 4


def test_older_content_of_the_same_number_is_found_after_its_key_was_destroyed(
    tmp_path: Path,
) -> None:
    made = written(tmp_path)
    before = path(tmp_path, 2).read_bytes()
    made.prune(1, 1)
    made.write(2, RUN, content(7), REQUESTED)
    path(tmp_path, 2).write_bytes(before)
    _expect_older(tmp_path)


def test_file_of_another_party_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "shop")
    written(tmp_path / "bank")
    shutil.copy(path(tmp_path / "bank", 2), path(tmp_path / "shop", 2))
    _expect_older(tmp_path / "shop")
    with pytest.raises(IntegrityError, match="the party shop; expected that of clinic"):
        store(tmp_path / "shop", "clinic").offer()


def test_other_architecture_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(StorageError, match="another agreement: seed, top differ"):
        store(tmp_path, top=[4], seed=6).offer()
    with pytest.raises(StorageError, match="another agreement: privacy differ"):
        store(tmp_path, privacy={"noise": 1}).require()


def test_other_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "FORMAT", 2)
    written(tmp_path)
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="it has format 2; expected 1"):
        store(tmp_path).offer()


def test_lost_key_file_is_named_and_the_files_stay(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / KEYS).rename(tmp_path / "backup")
    lost = store(tmp_path)
    with pytest.raises(IntegrityError, match="its key is not in the key file"):
        lost.offer()
    found = lost.recover()
    assert len(found) == 2
    assert all("its key is not in the key file" in each for each in found)
    assert numbers(lost) == [1, 2]
    lost.write(3, SECOND, content(3), TRAINED)  # a new training erases nothing, either
    lost.write(9, SECOND, content(9))
    assert numbers(lost) == [1, 2, 3, 9]
    (tmp_path / "backup").rename(tmp_path / KEYS)
    assert store(tmp_path).offer().numbers == (1, 2)


def test_one_lost_key_leaves_the_other_version(tmp_path: Path) -> None:
    written(tmp_path)
    KeyFile(tmp_path).destroy("model 2", erased=["model 2"])
    KeyFile(tmp_path).destroy(erased=["model 2"])
    _expect_older(tmp_path)


def test_kill_between_key_and_file_leaves_a_file_that_the_next_start_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = written(tmp_path)

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            made.prune(2, versions=True)
    next_start = store(tmp_path)
    assert [each.fault for each in next_start.files()] == ["its key was destroyed", ""]
    (tmp_path / "models" / ".000003.sealed.tmp").write_bytes(b"half")
    assert next_start.recover() == [
        "removed 000001.sealed: its key was destroyed, but not yet the file"
    ]
    assert next_start.recover() == []
    assert list((tmp_path / "models").iterdir()) == [path(tmp_path, 2)]
    next_start.erase(2)
    assert KeyFile(tmp_path).destroyed == {"model 2"}


def test_key_is_durable_before_its_file_and_gone_before_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_fsync, real_unlink, real_replace = os.fsync, Path.unlink, Path.replace

    def fsync(number: int) -> None:
        done.append("fsync " + Path(f"/proc/self/fd/{number}").readlink().name.split(" ")[0])
        real_fsync(number)

    def unlink(path: Path, *, missing_ok: bool = False) -> None:
        done.append(f"unlink {path.name}")
        real_unlink(path, missing_ok=missing_ok)

    def replaced(path: Path, target: Path) -> Path:
        done.append(f"replace {target.name}")
        return real_replace(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(Path, "replace", replaced)
    made, folder = store(tmp_path), tmp_path.name
    made.write(1, RUN, content(1), TRAINED)
    keys = ["fsync .keys.json.tmp", "replace keys.json", f"fsync {folder}"]
    file = ["fsync .000001.sealed.tmp", "replace 000001.sealed", "fsync models"]
    assert done == [*keys, f"fsync {folder}", *file]  # the second one for the new folder models
    done.clear()
    made.erase(1)
    assert done == [*keys, "fsync keys.json", "unlink 000001.sealed", "fsync models"]


def test_file_that_cannot_be_removed_is_named_and_removed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = written(tmp_path)

    def refused(path: Path, *, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        with pytest.raises(StorageError, match="Read-only file system") as error:
            made.erase(1)
    assert "the next start removes the file" in error.value.hint
    assert len(made.recover()) == 1
    assert numbers(made) == [2]


def test_damage_after_the_check_is_found_when_the_file_is_read(tmp_path: Path) -> None:
    made = written(tmp_path)
    before = path(tmp_path, 2).stat()
    whole = bytearray(path(tmp_path, 2).read_bytes())
    whole[-1] ^= 1
    path(tmp_path, 2).write_bytes(whole)
    os.utime(path(tmp_path, 2), ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(IntegrityError, match="cannot be read"):
        made.read(2)
    assert made.offer().numbers == (1,)


def test_file_is_decrypted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, opened = written(tmp_path), []
    real = sealing.unseal

    def counted(key: bytes, sealed: bytes, facts: bytes) -> bytes | None:
        opened.append(facts)
        return real(key, sealed, facts)

    monkeypatch.setattr(model_store, "unseal", counted)
    for _ in range(3):
        assert made.offer().numbers == (1, 2)
    assert not opened  # what this store wrote itself
    found = store(tmp_path)
    for _ in range(3):
        assert found.newest_version()
        assert found.offer().numbers == (1, 2)
    assert len(opened) == 2


def test_files_of_other_names_are_no_versions(tmp_path: Path) -> None:
    made = written(tmp_path)
    for name in ("12x.sealed", "0000002.sealed", "7.sealed", "000002.sealed.bak", "notes.txt"):
        shutil.copy(path(tmp_path, 2), tmp_path / "models" / name)
    assert numbers(made) == [1, 2]
    assert made.next_number() == 3


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("")
    with pytest.raises(StorageError, match="cannot read the folder"):
        store(tmp_path).offer()
    with pytest.raises(StorageError, match="cannot use the folder"):
        store(tmp_path).write(1, RUN, content(1))


def test_wrapped_store_needs_its_master_key(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path, bytes(range(32)))
    ModelStore(tmp_path, "shop", ARCHITECTURE, keys).write(1, RUN, content(1), TRAINED)
    assert ModelStore(tmp_path, "shop", ARCHITECTURE, keys).offer().numbers == (1,)
    with pytest.raises(IntegrityError, match="no master key is given"):
        store(tmp_path).offer()


@pytest.mark.slow
def test_full_disk_leaves_the_earlier_files(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this account may not mount a file system")
    try:
        made = written(tmp_path)
        noise = torch.randn(100_000, generator=torch.Generator().manual_seed(1))
        large = replace(content(3), tensors={"model": {"w": noise}})
        with pytest.raises(StorageError, match="No space left"):
            made.write(3, RUN, large)
        assert store(tmp_path).offer().numbers == (1, 2)
        assert numbers(made) == [1, 2]
        left = shutil.disk_usage(tmp_path).free
        (tmp_path / "ballast").write_bytes(bytes(left))
        with pytest.raises(StorageError, match="No space left"):
            made.erase(1)  # without space for the new key file, nothing is erased
        assert store(tmp_path).offer().numbers == (1, 2)
        (tmp_path / "ballast").unlink()
        made.write(3, RUN, content(3))
        made.erase(1)
        assert store(tmp_path).offer().numbers == (2, 3)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
