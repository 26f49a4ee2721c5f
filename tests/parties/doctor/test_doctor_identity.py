"""``vfl doctor``: checks of keys, certificates, pins and the clock."""

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from forge import Leaf, authority, write
from party_folder import PartyFolder, expect_failure, pin_keys

from parties.doctor import identity
from tests.conftest import HUB, SPOKE


def leaf(party_folder: PartyFolder, keys: Path, **changes: Any) -> None:
    """Write another certificate of the bank, with ``changes``."""
    (party_folder.certs / "bank.key").unlink()
    write(party_folder.certs, keys, HUB, Leaf(**{"name": HUB, **changes}).issue(authority(keys)))


def test_certificates_that_are_absent_are_refused(party_folder: PartyFolder) -> None:
    (party_folder.certs / "bank.pem").unlink()
    expect_failure(party_folder, HUB, 5, "bank.pem")


def test_a_key_that_others_can_read_is_refused(party_folder: PartyFolder) -> None:
    (party_folder.certs / "bank.key").chmod(0o644)
    expect_failure(party_folder, HUB, 5, "chmod 600")


def test_an_expired_certificate_is_refused(party_folder: PartyFolder, keys: Path) -> None:
    leaf(party_folder, keys, start=timedelta(days=-9), end=timedelta(days=-2))
    expect_failure(party_folder, HUB, 5, "renew the certificate, or set the clock")


def test_a_certificate_of_another_party_is_refused(party_folder: PartyFolder, keys: Path) -> None:
    leaf(party_folder, keys, uris=["spiffe://trial/party/shop"])
    found = party_folder.findings(HUB)["certificate"]
    assert "the certificate of bank names shop" in found["message"]
    assert found["exit"] == 5


def test_a_key_other_than_pinned_is_refused(party_folder: PartyFolder) -> None:
    party_folder.agreed[HUB] = f'pins = ["sha256:{"0" * 64}"]'
    expect_failure(party_folder, HUB, 5, "if bank has a new key, compare its fingerprint")


def test_a_certificate_that_soon_ends_is_seen(party_folder: PartyFolder, keys: Path) -> None:
    leaf(party_folder, keys, end=timedelta(days=20))
    found = party_folder.findings(HUB)["certificate's end"]
    assert found["state"] == "warning"
    assert "valid for 19 days" in found["message"] or "valid for 20 days" in found["message"]


def test_an_authority_s_key_beside_the_party_s_is_seen(
    party_folder: PartyFolder, keys: Path
) -> None:
    shutil.copy(keys / "ca.key", party_folder.certs)
    assert party_folder.findings(HUB)["authority's key"]["state"] == "warning"


def test_parties_without_pins_are_named(party_folder: PartyFolder) -> None:
    pin_keys(party_folder)
    party_folder.agreed[SPOKE] = ""
    assert "not pinned: shop;" in party_folder.findings(HUB)["pins"]["message"]


@pytest.mark.parametrize(
    ("says", "state"), [("yes", "ok"), ("no", "warning"), ("", "unknown"), ("sleep", "unknown")]
)
def test_the_clock_is_as_timedatectl_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, state: str
) -> None:
    program = tmp_path / "timedatectl"
    program.write_text(f"#!/bin/sh\n{'exec sleep 9' if says == 'sleep' else f'echo {says}'}\n")
    program.chmod(0o755)
    monkeypatch.setattr(identity, "_PATIENCE", 0.2)
    monkeypatch.setattr(shutil, "which", lambda name: str(program))
    assert [each.state.value for each in identity.check_clock()] == [state]


def test_a_machine_without_timedatectl_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert [each.state.value for each in identity.check_clock()] == ["unknown"]


def test_a_clock_that_shows_the_past_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    later = identity.datetime.now(identity.UTC) + timedelta(days=1)
    monkeypatch.setattr(identity, "EARLIEST_PLAUSIBLE", later)
    assert [each.code for each in identity.check_clock()] == [5]
