"""The key file of a party."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from parties.session.store.sealing import KeyFile


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
    assert KeyFile(tmp_path).names() == []
