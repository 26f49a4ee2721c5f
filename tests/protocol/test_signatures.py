"""Signatures are valid for one signer, one purpose and exact parts only."""

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from forge import NOW, Leaf, authority
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.credentials import Identity, Trust, fingerprint, signed_bytes, verify_signature
from protocol.errors import IdentityError
from protocol.keyring import Keyring, make_authority, read_keyring

PARTS = (b"session", b"agreement", b"", b"shop")


@pytest.fixture(scope="module")
def keyring(keys: Path) -> Keyring:
    return read_keyring(keys, "shop")


@pytest.fixture(scope="module")
def trust(keyring: Keyring) -> Trust:
    return Trust("trial", keyring.authority)


@pytest.fixture(scope="module")
def signed(keyring: Keyring) -> bytes:
    return keyring.identity.sign("accept", *PARTS)


def check(trust: Trust, der: bytes, signature: bytes, purpose: str, *parts: bytes) -> str:
    return verify_signature(trust, der, signature, NOW, purpose, *parts)


def test_signature_is_valid(keyring: Keyring, trust: Trust) -> None:
    signature = keyring.identity.sign("accept", *PARTS)
    assert check(trust, keyring.identity.der, signature, "accept", *PARTS) == "shop"


def test_other_purpose_is_refused(keyring: Keyring, trust: Trust) -> None:
    signature = keyring.identity.sign("receipt", *PARTS)
    with pytest.raises(IdentityError, match="the signature of shop for 'accept' is invalid"):
        check(trust, keyring.identity.der, signature, "accept", *PARTS)


def test_other_signer_is_refused(keyring: Keyring, trust: Trust, keys: Path) -> None:
    bank = read_keyring(keys, "bank").identity
    with pytest.raises(IdentityError, match="the signature of shop"):
        check(trust, keyring.identity.der, bank.sign("accept", *PARTS), "accept", *PARTS)
    signed = bank.sign("accept", *PARTS)
    assert check(trust, bank.der, signed, "accept", *PARTS) == "bank"


@pytest.mark.parametrize(
    "parts",
    [
        (b"sessio", b"nagreement", b"", b"shop"),
        (b"session", b"agreement", b"shop"),
        (b"session", b"agreement", b"", b"shop", b""),
        (b"agreement", b"session", b"", b"shop"),
        (b"session", b"agreement", b"\0", b"shop"),
        (),
    ],
)
def test_tampered_parts_are_refused(
    keyring: Keyring, trust: Trust, parts: tuple[bytes, ...]
) -> None:
    signature = keyring.identity.sign("accept", *PARTS)
    with pytest.raises(IdentityError, match="is invalid"):
        check(trust, keyring.identity.der, signature, "accept", *parts)


def test_purpose_and_parts_cannot_be_mixed_up() -> None:
    assert signed_bytes("a", [b"bc"]) != signed_bytes("a", [b"b", b"c"])
    assert signed_bytes("accept", PARTS).startswith(b"vfl/accept/v1\n")


@settings(max_examples=60)
@given(st.data())
def test_changed_signature_is_refused(
    keyring: Keyring, trust: Trust, signed: bytes, data: st.DataObject
) -> None:
    signature = bytearray(signed)
    signature[data.draw(st.integers(0, len(signature) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(IdentityError):
        check(trust, keyring.identity.der, bytes(signature), "accept", *PARTS)


# warning of the cryptography package for a negative serial number
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(max_examples=300)
@given(st.data())
def test_changed_certificate_is_refused(
    keyring: Keyring, trust: Trust, signed: bytes, data: st.DataObject
) -> None:
    der = bytearray(keyring.identity.der)
    for _ in range(data.draw(st.integers(1, 3))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    try:
        check(trust, bytes(der), signed, "accept", *PARTS)
    except IdentityError:
        return
    # bytes outside the signed part may change, and the signed part may not
    read = x509.load_der_x509_certificate(bytes(der))
    assert read.tbs_certificate_bytes == keyring.identity.certificate.tbs_certificate_bytes


def test_certificate_of_an_unknown_version_is_refused(
    keyring: Keyring, trust: Trust, signed: bytes
) -> None:
    third = b"\xa0\x03\x02\x01\x02"
    assert third in keyring.identity.der
    der = keyring.identity.der.replace(third, b"\xa0\x03\x02\x01\x01")
    with pytest.raises(IdentityError, match="no valid DER certificate"):
        check(trust, der, signed, "accept", *PARTS)


@settings(max_examples=100)
@given(st.binary(max_size=100))
def test_random_bytes_are_no_certificate(trust: Trust, der: bytes) -> None:
    with pytest.raises(IdentityError, match="no valid DER certificate"):
        check(trust, der, b"", "accept")


def test_signature_of_a_stranger_is_refused(trust: Trust, tmp_path: Path) -> None:
    """The issuer is checked before any other field of the certificate."""
    make_authority(tmp_path / "other", "trial")
    leaf, key = Leaf(uris=["spiffe://trial/party/bank"]).issue(authority(tmp_path / "other"))
    stranger = Identity("bank", leaf, key)  # type: ignore[arg-type]
    with pytest.raises(IdentityError, match="not issued by the authority"):
        check(trust, stranger.der, stranger.sign("welcome", *PARTS), "welcome", *PARTS)


def test_a_former_key_confirms_what_its_party_signed_and_nothing_else(
    keyring: Keyring, trust: Trust, tmp_path: Path
) -> None:
    make_authority(tmp_path / "other", "trial")
    leaf, key = Leaf(uris=["spiffe://trial/party/shop"]).issue(authority(tmp_path / "other"))
    old = Identity("shop", leaf, key)  # type: ignore[arg-type]
    pin, signature = fingerprint(leaf), old.sign("event-key", *PARTS)
    pins = {"shop": [fingerprint(keyring.identity.certificate)]}
    knows = replace(trust, pins=pins, denied=frozenset([pin]), former={"shop": [pin]})

    def past(trust: Trust, signed: bytes = signature) -> str:
        return verify_signature(trust, old.der, signed, NOW, "event-key", *PARTS, past=True)

    assert past(knows) == "shop"
    with pytest.raises(IdentityError, match="is invalid"):
        past(knows, keyring.identity.sign("event-key", *PARTS))
    for other in (replace(knows, former={}), replace(knows, former={"bank": [pin]})):
        with pytest.raises(IdentityError, match="not issued by the authority"):
            past(other)
    with pytest.raises(IdentityError, match="not issued by the authority"):
        check(knows, old.der, signature, "event-key", *PARTS)


def test_a_former_key_does_not_confirm_another_party(trust: Trust, tmp_path: Path) -> None:
    make_authority(tmp_path / "other", "trial")
    leaf, key = Leaf(uris=["spiffe://trial/party/bank"]).issue(authority(tmp_path / "other"))
    thief = Identity("bank", leaf, key)  # type: ignore[arg-type]
    knows = replace(trust, former={"shop": [fingerprint(leaf)]})
    signature = thief.sign("event-key", *PARTS)
    with pytest.raises(IdentityError, match="not issued by the authority"):
        verify_signature(knows, thief.der, signature, NOW, "event-key", *PARTS, past=True)


@pytest.mark.parametrize("knows_keys", [False, True])
def test_unknown_type_of_key_is_refused(trust: Trust, keyring: Keyring, knows_keys: bool) -> None:
    curve = bytes.fromhex("2a8648ce3d030107")  # the OID of P-256
    der = keyring.identity.der.replace(curve, curve[:-1] + b"\x7f")
    assert der != keyring.identity.der
    former = {"shop": ["sha256:" + "0" * 64]} if knows_keys else {}
    with pytest.raises(IdentityError):
        verify_signature(replace(trust, former=former), der, b"", NOW, "event-key", past=True)
