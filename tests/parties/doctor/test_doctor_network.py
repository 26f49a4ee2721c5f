"""``vfl doctor``: each reason why a passive party cannot reach its hub has its own message."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from desk import Desk, pinned, refused
from forge import Leaf, authority, write

from parties.doctor import network
from protocol.keyring import make_authority, read_keyring
from tests.conftest import HUB, SPOKE, listening


@contextmanager
def hub(keys: Path, name: str = HUB) -> Iterator[str]:
    with listening(read_keyring(keys, name)) as (_, address):
        yield address


def test_a_hub_that_is_up_is_found_and_not_disturbed(desk: Desk, keys: Path) -> None:
    pinned(desk)
    with listening(read_keyring(keys, HUB)) as (server, address):
        assert desk.findings(SPOKE, at=address)["connection to the hub"]["state"] == "ok"
        assert server._arrivals.empty()


def test_a_hub_that_is_down_is_a_peer_s_failure(desk: Desk) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        refused(desk, SPOKE, 6, "no process listens", at=address)


def test_a_name_that_nobody_knows_is_a_peer_s_failure(desk: Desk) -> None:
    refused(desk, SPOKE, 6, "cannot be resolved", at="no-such-host.invalid:7700")


def test_a_hub_that_does_not_answer_is_given_up(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        refused(desk, SPOKE, 6, "does not answer", at=address)


def test_another_party_at_the_hub_s_address_is_refused(desk: Desk, keys: Path) -> None:
    with hub(keys, "hospital") as address:
        refused(desk, SPOKE, 5, "is not that of bank", at=address)


def test_a_hub_with_another_key_than_pinned_is_refused(desk: Desk, keys: Path) -> None:
    desk.agreed[HUB] = f'pins = ["sha256:{"0" * 64}"]'
    with hub(keys) as address:
        refused(desk, SPOKE, 5, "if bank has a new key", at=address)


def test_a_hub_of_another_authority_is_refused(desk: Desk, keys: Path) -> None:
    make_authority(desk.folder / "other", "trial")
    (desk.folder / "theirs").mkdir()
    made = Leaf(name=HUB).issue(authority(desk.folder / "other"))
    write(desk.folder / "theirs", desk.folder / "other", HUB, made)
    with hub(desk.folder / "theirs") as address:
        refused(desk, SPOKE, 5, "check the address, and that both sides have the same ca.pem", at=address)
