"""``vfl doctor``: each reason why a passive party cannot reach its hub has its own message."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from forge import Leaf, authority, write
from party_folder import PartyFolder, expect_failure, pin_keys

from parties.doctor import network
from protocol.credentials import fingerprint
from protocol.keyring import make_authority, read_keyring
from tests.conftest import HUB, SPOKE, listening


@contextmanager
def hub(keys: Path, name: str = HUB) -> Iterator[str]:
    with listening(read_keyring(keys, name)) as (_, address):
        yield address


def test_running_hub_is_reached_and_not_disturbed(party_folder: PartyFolder, keys: Path) -> None:
    pin_keys(party_folder)
    with listening(read_keyring(keys, HUB)) as (server, address):
        assert party_folder.findings(SPOKE, at=address)["connection to the hub"]["state"] == "ok"
        assert server._arrivals.empty()


def test_stopped_hub_is_a_peer_failure(party_folder: PartyFolder) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        expect_failure(party_folder, SPOKE, 6, "no process listens", at=address)


def test_unresolvable_name_is_a_peer_failure(party_folder: PartyFolder) -> None:
    expect_failure(party_folder, SPOKE, 6, "cannot be resolved", at="no-such-host.invalid:7700")


def test_hub_that_does_not_reply_times_out(
    party_folder: PartyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        expect_failure(party_folder, SPOKE, 6, "does not answer", at=address)


def test_another_party_at_the_hub_s_address_is_refused(
    party_folder: PartyFolder, keys: Path
) -> None:
    with hub(keys, "hospital") as address:
        expect_failure(party_folder, SPOKE, 5, "is not valid for bank", at=address)


def test_a_hub_with_another_key_than_pinned_is_refused(
    party_folder: PartyFolder, keys: Path
) -> None:
    party_folder.agreed[HUB] = f'pins = ["sha256:{"0" * 64}"]'
    with hub(keys) as address:
        expect_failure(party_folder, SPOKE, 5, "if bank has a new key", at=address)


def test_a_hub_whose_key_is_in_the_deny_list_is_refused(
    party_folder: PartyFolder, keys: Path
) -> None:
    pin = fingerprint(read_keyring(keys, HUB).identity.certificate)
    (party_folder.folder / "denied.txt").write_text(f"{pin}\n")
    party_folder.settings(SPOKE, top='denied_file = "denied.txt"')
    with hub(keys) as address:
        expect_failure(party_folder, SPOKE, 5, "the key of bank is denied", at=address)


def test_a_hub_of_another_authority_is_refused(party_folder: PartyFolder, keys: Path) -> None:
    make_authority(party_folder.folder / "other", "trial")
    (party_folder.folder / "theirs").mkdir()
    made = Leaf(name=HUB).issue(authority(party_folder.folder / "other"))
    write(party_folder.folder / "theirs", party_folder.folder / "other", HUB, made)
    with hub(party_folder.folder / "theirs") as address:
        expect_failure(
            party_folder,
            SPOKE,
            5,
            "check the address, and that both sides have the same ca.pem",
            at=address,
        )
