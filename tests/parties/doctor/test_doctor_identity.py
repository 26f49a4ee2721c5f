"""``vfl doctor``: checks of keys, certificates, pins and the clock."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from forge import Leaf, authority, write
from party_folder import PartyFolder, expect_failure, pin_keys

from parties.doctor import identity
from protocol.credentials import fingerprint
from protocol.keyring import read_keyring
from tests.conftest import HUB, SPOKE


def leaf(party_folder: PartyFolder, keys: Path, **changes: Any) -> None:
    """Write another certificate of the bank, with ``changes``."""
    (party_folder.certs / "bank.key").unlink()
    write(party_folder.certs, keys, HUB, Leaf(**{"name": HUB, **changes}).issue(authority(keys)))


def test_missing_certificates_are_refused(party_folder: PartyFolder) -> None:
    (party_folder.certs / "bank.pem").unlink()
    expect_failure(party_folder, HUB, 5, "bank.pem")


def test_key_readable_by_others_is_refused(party_folder: PartyFolder) -> None:
    (party_folder.certs / "bank.key").chmod(0o644)
    expect_failure(party_folder, HUB, 5, "chmod 600")


def test_an_expired_certificate_is_refused(party_folder: PartyFolder, keys: Path) -> None:
    leaf(party_folder, keys, start=timedelta(days=-9), end=timedelta(days=-2))
    expect_failure(party_folder, HUB, 5, "renew the certificate, or set the clock")


def test_a_certificate_of_another_party_is_refused(party_folder: PartyFolder, keys: Path) -> None:
    leaf(party_folder, keys, uris=["spiffe://trial/party/shop"])
    finding = party_folder.findings(HUB)["certificate"]
    assert "the certificate of bank is issued to shop" in finding["message"]
    assert finding["exit"] == 5


def test_a_key_other_than_pinned_is_refused(party_folder: PartyFolder) -> None:
    party_folder.agreed[HUB] = f'pins = ["sha256:{"0" * 64}"]'
    expect_failure(party_folder, HUB, 5, "if bank has a new key, compare the fingerprint")


def test_certificate_that_expires_soon_gives_a_warning(
    party_folder: PartyFolder, keys: Path
) -> None:
    leaf(party_folder, keys, end=timedelta(days=20))
    finding = party_folder.findings(HUB)["certificate's end"]
    assert finding["state"] == "warning"
    assert "valid for 19 days" in finding["message"] or "valid for 20 days" in finding["message"]


def test_authority_key_beside_the_party_key_gives_a_warning(
    party_folder: PartyFolder, keys: Path
) -> None:
    shutil.copy(keys / "ca.key", party_folder.certs)
    assert party_folder.findings(HUB)["authority's key"]["state"] == "warning"


def test_parties_without_pins_are_named(party_folder: PartyFolder) -> None:
    pin_keys(party_folder)
    party_folder.agreed[SPOKE] = ""
    assert "not pinned: shop;" in party_folder.findings(HUB)["pins"]["message"]


def test_a_deny_list_that_is_absent_is_refused(party_folder: PartyFolder) -> None:
    party_folder.settings(HUB, top='denied_file = "denied.txt"')
    expect_failure(party_folder, HUB, 5, "cannot read the deny list")


def test_own_key_in_the_deny_list_is_refused(party_folder: PartyFolder) -> None:
    pin = fingerprint(read_keyring(party_folder.certs, HUB).identity.certificate)
    (party_folder.folder / "denied.txt").write_text(f"{pin}\n")
    party_folder.settings(HUB, top='denied_file = "denied.txt"')
    expect_failure(party_folder, HUB, 5, "the key of bank is denied")


def test_strict_settings_without_pins_are_refused(party_folder: PartyFolder) -> None:
    party_folder.settings(HUB, top="strict = true")
    expect_failure(party_folder, HUB, 5, "the settings have strict = true")
    pin_keys(party_folder)
    assert party_folder.findings(HUB)["certificate"]["state"] == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("says", "state"), [("yes", "ok"), ("no", "warning"), ("", "unknown"), ("sleep", "unknown")]
)
def test_clock_state_is_read_from_timedatectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, state: str
) -> None:
    program = tmp_path / "timedatectl"
    program.write_text(f"#!/bin/sh\n{'exec sleep 9' if says == 'sleep' else f'echo {says}'}\n")
    program.chmod(0o755)
    monkeypatch.setattr(identity, "_PATIENCE", 0.2)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    assert [each.state.value for each in identity.check_clock()] == [state]


def test_clock_state_is_unknown_without_timedatectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert [each.state.value for each in identity.check_clock()] == ["unknown"]


def test_clock_in_the_past_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    later = identity.datetime.now(identity.UTC) + timedelta(days=1)
    monkeypatch.setattr(identity, "EARLIEST_PLAUSIBLE", later)
    assert [each.code for each in identity.check_clock()] == [5]
