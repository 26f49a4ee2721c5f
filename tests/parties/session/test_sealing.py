"""The key file: keys are created, wrapped and destroyed; damage and full disks are named."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from configs.errors import ConfigError
from parties.common.errors import IntegrityError, StorageError
from parties.session.store.sealing import (
    KEYS,
    KeyFile,
    read_master_key,
    seal,
    unseal,
)

MASTER, OTHER = bytes(range(32)), bytes(32)


def test_key_is_created_once_and_is_private(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "party")
    first = keys.create("model 1")
    assert len(first) == 32
    assert keys.create("model 1") == first == keys.get("model 1")
    assert keys.create("model 2") != first
    assert (tmp_path / "party" / KEYS).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "party").stat().st_mode & 0o777 == 0o700
    assert KeyFile(tmp_path).get("model 1") is None


def test_destroyed_key_is_gone_and_listed(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path)
    lost, kept = keys.create("a"), keys.create("b")
    keys.destroy("a", "never there")
    assert keys.get("a") is None
    assert keys.get("b") == kept
    assert keys.destroyed == {"a"}
    assert lost.hex() not in (tmp_path / KEYS).read_text()
    keys.destroy("b", erased=["a"])
    assert keys.destroyed == {"b"}
    assert not keys.all()
    assert keys.create("b") != kept
    assert not keys.destroyed


def test_old_content_of_the_key_file_is_overwritten(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path)
    lost = keys.create("a")
    with (tmp_path / KEYS).open("rb") as old:  # stays the old file when the name is replaced
        assert lost.hex().encode() in old.read()
        keys.destroy("a")
        old.seek(0)
        assert set(old.read()) == {0}


def test_wrapped_keys_need_their_master_key(tmp_path: Path) -> None:
    key = KeyFile(tmp_path, MASTER).create("a")
    assert KeyFile(tmp_path, MASTER).get("a") == key
    assert key.hex() not in (tmp_path / KEYS).read_text()
    with pytest.raises(IntegrityError, match="no master key is given"):
        KeyFile(tmp_path).get("a")
    with pytest.raises(IntegrityError, match="does not fit"):
        KeyFile(tmp_path, OTHER).get("a")
    with pytest.raises(IntegrityError, match="does not fit"):
        KeyFile(tmp_path, OTHER).create("b")
    with pytest.raises(IntegrityError, match="does not fit"):
        KeyFile(tmp_path, OTHER).destroy("a")
    assert KeyFile(tmp_path, MASTER).get("a") == key


def test_master_key_that_is_given_later_wraps_all_keys_at_the_next_change(tmp_path: Path) -> None:
    key = KeyFile(tmp_path).create("a")
    with (tmp_path / KEYS).open("rb") as old:  # stays the old file when the name is replaced
        KeyFile(tmp_path, MASTER).create("b")
        assert set(old.read()) == {0}
    with (tmp_path / KEYS).open("rb") as old:
        KeyFile(tmp_path, MASTER).create("c")
        assert set(old.read()) != {0}  # it has wrapped keys only
    assert key.hex() not in (tmp_path / KEYS).read_text()
    assert KeyFile(tmp_path, MASTER).get("a") == key


def test_every_changed_byte_of_the_key_file_is_found(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path)
    keys.create("model 1")
    keys.create("commitments")
    keys.destroy("model 1")
    path = tmp_path / KEYS
    whole = path.read_bytes()
    for place in range(len(whole)):
        for change in (1, 0x20, 0x80):
            changed = bytes([whole[place] ^ change])
            path.write_bytes(whole[:place] + changed + whole[place + 1 :])
            try:
                found = keys.get("commitments")
            except IntegrityError:
                continue
            # Only the case of a hexadecimal digit changes nothing.
            assert found is not None
            assert changed.lower() == whole[place : place + 1]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(IntegrityError, match="is damaged"):
            keys.get("commitments")


@pytest.mark.parametrize("content", [b"[]", b"{}", b"[" * 100_000, b"\xff", b'{"sha256": 3}'])
def test_other_content_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / KEYS).write_bytes(content)
    with pytest.raises(IntegrityError, match="is damaged"):
        KeyFile(tmp_path).all()


def test_other_format_is_refused(tmp_path: Path) -> None:
    KeyFile(tmp_path).create("a")
    content = json.loads((tmp_path / KEYS).read_text()) | {"format": 2}
    (tmp_path / KEYS).write_text(json.dumps(content))
    with pytest.raises(IntegrityError, match="format 2; expected 1"):
        KeyFile(tmp_path).get("a")


def test_key_file_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / KEYS).mkdir()
    with pytest.raises(StorageError, match="cannot read"):
        KeyFile(tmp_path).create("a")


def test_party_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "party").write_text("")
    with pytest.raises(StorageError):
        KeyFile(tmp_path / "party").create("a")


def test_keys_of_two_processes_are_not_lost(tmp_path: Path) -> None:
    """Each writer has its own view of the file, as the service and a command have."""

    def create(writer: int) -> dict[str, bytes]:
        keys = KeyFile(tmp_path)
        return {f"{writer} {number}": keys.create(f"{writer} {number}") for number in range(20)}

    with ThreadPoolExecutor(4) as pool:
        created = [item for each in pool.map(create, range(4)) for item in each.items()]
    assert len(created) == 80
    keys = KeyFile(tmp_path)
    assert all(keys.get(name) == key for name, key in created)


def test_destroyed_key_does_not_return_with_a_key_of_another_process(tmp_path: Path) -> None:
    """A key that one writer removed is not written again by the other one."""

    def renew(writer: int) -> None:
        keys = KeyFile(tmp_path)
        for number in range(20):
            keys.create(f"{writer} {number}")
            keys.destroy(f"{writer} {number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(renew, range(4)))
    assert not KeyFile(tmp_path).all()


_CREATE = """
import sys
from pathlib import Path
from parties.session.store.sealing import KeyFile
keys = KeyFile(Path(sys.argv[1]))
for number in range(25):
    keys.create(f"{sys.argv[2]} {number}")
    keys.create(f"both {number}")
    if number % 2:
        keys.destroy(f"{sys.argv[2]} {number}")
"""


@pytest.mark.slow
def test_two_processes_that_write_at_the_same_time_lose_no_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CREATE, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    running = [subprocess.Popen([*command, name], env=environment) for name in ("one", "two")]
    assert [each.wait(60) for each in running] == [0, 0]
    even, odd = range(0, 25, 2), range(1, 25, 2)
    names = {f"{name} {number}" for name in ("one", "two") for number in even}
    names |= {f"both {number}" for number in range(25)}
    assert set(KeyFile(tmp_path).all()) == names
    gone = {f"{name} {number}" for name in ("one", "two") for number in odd}
    assert KeyFile(tmp_path).destroyed == gone


def test_unseal_returns_nothing_for_other_key_facts_or_content() -> None:
    sealed = seal(MASTER, b"content", b"facts")
    assert unseal(MASTER, sealed, b"facts") == b"content"
    assert unseal(OTHER, sealed, b"facts") is None
    assert unseal(MASTER, sealed, b"Facts") is None
    assert unseal(MASTER, sealed[:-1], b"facts") is None
    assert unseal(MASTER, b"", b"facts") is None
    assert unseal(b"short", sealed, b"facts") is None
    assert seal(MASTER, b"content", b"facts") != sealed  # a nonce is never used twice


def test_master_key_is_read_as_bytes_or_digits(tmp_path: Path) -> None:
    path = tmp_path / "master"
    assert read_master_key(None) is None
    path.write_bytes(MASTER)
    assert read_master_key(path) == MASTER
    path.write_text(MASTER.hex().upper() + "\n")
    assert read_master_key(path) == MASTER


@pytest.mark.parametrize("content", [b"", b"ab" * 16, b"ab" * 33, b"xy" * 32, b"\xff" * 31])
def test_master_key_of_another_form_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "master").write_bytes(content)
    with pytest.raises(ConfigError, match="master key"):
        read_master_key(tmp_path / "master")


def test_missing_master_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read a master key"):
        read_master_key(tmp_path / "absent")
