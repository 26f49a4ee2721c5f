"""Rules for a party's certificate: one test for each refusal."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from forge import NOW, Authority, Key, Leaf, authority, write

from protocol.credentials import CLOCK_SKEW, Trust, fingerprint
from protocol.deny_list import DenyList
from protocol.errors import IdentityError
from protocol.keyring import issue_certificate, make_authority, make_trust, read_keyring


@pytest.fixture(scope="session")
def root(keys: Path) -> Authority:
    return authority(keys)


@pytest.fixture(scope="session")
def trust(root: Authority) -> Trust:
    return Trust("trial", root.certificate)


def refused(trust: Trust, leaf: x509.Certificate, message: str) -> None:
    with pytest.raises(IdentityError, match=message):
        trust.check(leaf, NOW)


def test_good_certificate_names_its_party(root: Authority, trust: Trust) -> None:
    assert trust.check(Leaf().issue(root)[0], NOW) == "shop"


def test_certificates_of_the_keyring_are_good(keys: Path) -> None:
    keyring = read_keyring(keys, "shop")
    assert make_trust(keyring, "trial", {}).check(keyring.identity.certificate, NOW) == "shop"


def test_two_uris_are_refused(root: Authority, trust: Trust) -> None:
    uris = ["spiffe://trial/party/shop", "spiffe://trial/party/bank"]
    refused(trust, Leaf(uris=uris).issue(root)[0], "has 2 URI names; expected exactly one")


def test_no_uri_is_refused(root: Authority, trust: Trust) -> None:
    refused(trust, Leaf(uris=[]).issue(root)[0], "has 0 URI names")


def test_no_alternative_names_are_refused(root: Authority, trust: Trust) -> None:
    leaf, _ = Leaf(without=x509.SubjectAlternativeName).issue(root)
    refused(trust, leaf, "has no alternative names")


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://other/party/shop",
        "spiffe://trial.evil/party/shop",
        "https://trial/party/shop",
        "SPIFFE://trial/party/shop",
        "spiffe://trial/client/shop",
        "spiffe://trial/party/shop/more",
        "spiffe://trial/party/",
    ],
)
def test_other_federation_or_scheme_is_refused(root: Authority, trust: Trust, uri: str) -> None:
    refused(
        trust,
        Leaf(uris=[uri]).issue(root)[0],
        "expected a URI of the form spiffe://trial/party/NAME",
    )


def test_no_dns_name_is_refused(root: Authority, trust: Trust) -> None:
    refused(trust, Leaf(dns=[]).issue(root)[0], "has no DNS name")


def test_authority_as_leaf_is_refused(root: Authority, trust: Trust) -> None:
    leaf, _ = Leaf(ca=True).issue(root)
    refused(trust, leaf, "an authority's certificate is used as a party's")


def test_the_authority_itself_is_refused(root: Authority, trust: Trust) -> None:
    refused(trust, root.certificate, "has no alternative names")


def test_leaf_that_signs_certificates_is_refused(root: Authority, trust: Trust) -> None:
    leaf, _ = Leaf(signs_certificates=True).issue(root)
    refused(trust, leaf, "an authority's certificate is used as a party's")


def test_expired_is_refused_with_dates(root: Authority, trust: Trust) -> None:
    leaf, _ = Leaf(start=timedelta(days=-9), end=timedelta(days=-2)).issue(root)
    end = NOW + timedelta(days=-2)
    refused(trust, leaf, f"valid from .* to {end:%Y-%m-%d %H:%M} UTC, .* time is {NOW:%Y-%m}")


def test_not_yet_valid_is_refused(root: Authority, trust: Trust) -> None:
    refused(trust, Leaf(start=timedelta(days=1)).issue(root)[0], "a certificate is valid from")


@pytest.mark.parametrize("sign", [-1, 1])
def test_five_minutes_of_skew_are_accepted_and_no_more(
    root: Authority, trust: Trust, sign: int
) -> None:
    # An hour later than the authority, which slow machines create long after NOW.
    leaf, _ = Leaf(start=timedelta(hours=1)).issue(root)
    edge = leaf.not_valid_after_utc if sign > 0 else leaf.not_valid_before_utc
    assert timedelta(minutes=5) == CLOCK_SKEW
    assert trust.check(leaf, edge + sign * CLOCK_SKEW) == "shop"
    with pytest.raises(IdentityError, match="a certificate is valid from"):
        trust.check(leaf, edge + sign * (CLOCK_SKEW + timedelta(seconds=1)))


@pytest.mark.parametrize("days", [-400, 400])
def test_authority_beyond_its_time_is_refused(root: Authority, trust: Trust, days: int) -> None:
    leaf, _ = Leaf(start=timedelta(days=-800), end=timedelta(days=800)).issue(root)
    with pytest.raises(IdentityError, match="a certificate is valid from"):
        trust.check(leaf, NOW + timedelta(days=days))


def test_other_authority_is_refused(root: Authority, trust: Trust, tmp_path: Path) -> None:
    make_authority(tmp_path / "other", "trial")  # the same name, another key
    leaf, _ = Leaf().issue(authority(tmp_path / "other"))
    refused(trust, leaf, "was not issued by the authority of 'trial'")


def test_self_signed_is_refused(root: Authority, trust: Trust) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    leaf, _ = Leaf().issue(replace(root, key=key), key)
    refused(trust, leaf, "was not issued by the authority")


@pytest.mark.parametrize(
    "purposes",
    [
        [ExtendedKeyUsageOID.CLIENT_AUTH],
        [ExtendedKeyUsageOID.SERVER_AUTH],
        [ExtendedKeyUsageOID.CODE_SIGNING],
    ],
)
def test_other_extended_usage_is_refused(
    root: Authority, trust: Trust, purposes: list[x509.ObjectIdentifier]
) -> None:
    leaf, _ = Leaf(purposes=purposes).issue(root)
    refused(trust, leaf, "does not allow both client and server authentication")


@pytest.mark.parametrize("leaf", [Leaf(signs=False), Leaf(usage_critical=False)])
def test_other_key_usage_is_refused(root: Authority, trust: Trust, leaf: Leaf) -> None:
    refused(trust, leaf.issue(root)[0], "is not critical, or does not allow digital signatures")


@pytest.mark.parametrize("kind", [x509.BasicConstraints, x509.KeyUsage, x509.ExtendedKeyUsage])
def test_absent_extension_is_refused_by_name(
    root: Authority, trust: Trust, kind: type[x509.ExtensionType]
) -> None:
    leaf, _ = Leaf(without=kind).issue(root)
    refused(trust, leaf, f"a party's certificate does not have the extension (?i:{kind.__name__})")


def test_other_pin_is_refused_with_both(root: Authority, trust: Trust) -> None:
    leaf, other = Leaf().issue(root)[0], Leaf().issue(root)[0]
    pinned = replace(trust, pins={"shop": [fingerprint(other)]})
    message = f"the key of shop has the pin {fingerprint(leaf)}; expected {fingerprint(other)}"
    refused(pinned, leaf, message)
    assert replace(trust, pins={"shop": [fingerprint(other), fingerprint(leaf)]}).check(leaf, NOW)
    assert replace(trust, pins={"bank": [fingerprint(other)]}).check(leaf, NOW) == "shop"


def test_denied_key_is_refused(root: Authority, trust: Trust) -> None:
    leaf, _ = Leaf().issue(root)
    pin = fingerprint(leaf)
    denying = replace(trust, denied=frozenset([pin]), pins={"shop": [pin]})
    refused(denying, leaf, "the key of shop is denied")


def test_key_in_the_deny_list_is_refused_from_the_moment_it_is_listed(
    root: Authority, trust: Trust, tmp_path: Path
) -> None:
    leaf, _ = Leaf().issue(root)
    path, new = tmp_path / "denied.txt", tmp_path / "new.txt"
    path.write_text("# keys that were stolen\n")
    watching = replace(trust, denied_file=DenyList(path))
    assert watching.check(leaf, NOW) == "shop"
    new.write_text(f"# keys that were stolen\n{fingerprint(leaf)}\n")
    new.replace(path)
    refused(watching, leaf, "the key of shop is denied")


@pytest.mark.parametrize(
    "key",
    [
        ed25519.Ed25519PrivateKey.generate(),
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP256K1()),
    ],
    ids=["Ed25519", "RSA", "P-384", "secp256k1"],
)
def test_key_of_another_kind_is_refused(root: Authority, trust: Trust, key: Key) -> None:
    refused(trust, Leaf().issue(root, key)[0], "a party's key must be P-256")


# --- files --------------------------------------------------------------------------------------


@pytest.fixture
def folder(keys: Path, root: Authority, tmp_path: Path) -> Path:
    """Return a copy of the shop's files, which a test may change."""
    return write(tmp_path / "certs", keys, "shop", Leaf().issue(root))


def test_good_files_are_read(folder: Path) -> None:
    assert repr(read_keyring(folder, "shop")) == "Keyring(shop)"


def test_key_of_another_certificate_is_refused(folder: Path, keys: Path) -> None:
    (folder / "shop.key").write_bytes((keys / "bank.key").read_bytes())
    with pytest.raises(IdentityError, match=r"shop\.key does not match the certificate shop\.pem"):
        read_keyring(folder, "shop")


@pytest.mark.parametrize("key", [ed25519.Ed25519PrivateKey.generate()])
def test_key_file_of_another_kind_is_refused(
    keys: Path, root: Authority, tmp_path: Path, key: Key
) -> None:
    write(tmp_path / "certs", keys, "shop", Leaf().issue(root, key))
    with pytest.raises(IdentityError, match=r"must be P-256 \(got Ed25519\)"):
        read_keyring(tmp_path / "certs", "shop")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_key_file_open_to_others_is_refused_with_a_hint(folder: Path, mode: int) -> None:
    (folder / "shop.key").chmod(mode)
    with pytest.raises(IdentityError, match="can be read by other users") as error:
        read_keyring(folder, "shop")
    assert error.value.hint == f"run chmod 600 {folder / 'shop.key'}"


@pytest.mark.parametrize("name", ["ca.pem", "shop.pem", "shop.key"])
def test_missing_file_is_refused_by_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(IdentityError, match=f"cannot read .*{name}: No such file"):
        read_keyring(folder, "shop")


@pytest.mark.parametrize("name", ["ca.pem", "shop.pem", "shop.key"])
def test_file_that_is_not_pem_is_refused(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"\x30\x82nonsense")
    with pytest.raises(IdentityError, match=r"or shop\.key in .* is not a PEM file"):
        read_keyring(folder, "shop")


def test_key_with_a_password_is_refused(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    (folder / "shop.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"canary"),
        )
    )
    with pytest.raises(IdentityError, match="password"):
        read_keyring(folder, "shop")


def test_files_are_never_overwritten(keys: Path) -> None:
    with pytest.raises(IdentityError, match=r"ca\.key already exists and is not overwritten"):
        make_authority(keys, "trial")
    with pytest.raises(IdentityError, match=r"shop\.key already exists and is not overwritten"):
        issue_certificate(keys, "trial", "shop")


def test_keys_are_written_for_the_owner_alone(keys: Path) -> None:
    assert {path.stat().st_mode & 0o777 for path in keys.glob("*.key")} == {0o600}


def test_nothing_of_a_key_is_shown(keys: Path) -> None:
    keyring = read_keyring(keys, "shop")
    assert "PRIVATE" not in repr(keyring) + repr(keyring.identity) + str(keyring)
    assert "key=" not in repr(keyring.identity)
