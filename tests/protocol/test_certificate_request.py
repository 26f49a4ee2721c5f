"""Certificate requests: legal ones are signed, and illegal ones are refused."""

from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from protocol.certificate_request import format_pin, read_pin, request_certificate, sign_request
from protocol.credentials import fingerprint, party_uri
from protocol.errors import IdentityError
from protocol.keyring import make_authority, make_trust, private_key_pem, read_keyring
from tests.conftest import FEDERATION

P256, P384 = ec.SECP256R1(), ec.SECP384R1()


def write_request(folder: Path, key: object, *uris: str, name: str = "shop") -> Path:
    """Write a request for any key and any URI names."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    if uris:
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    made = builder.sign(key, digest)  # type: ignore[arg-type]
    path = folder / f"{name}.csr"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return path


def ours() -> str:
    return party_uri(FEDERATION, "shop")


def refuse(keys: Path, path: Path, message: str) -> None:
    with pytest.raises(IdentityError, match=message) as caught:
        sign_request(keys, FEDERATION, "shop", path)
    assert caught.value.hint


def test_a_request_becomes_a_keyring_and_the_key_is_not_sent(keys: Path, tmp_path: Path) -> None:
    home, far = tmp_path / "home", tmp_path / "far"
    pin = request_certificate(home, FEDERATION, "shop")
    far.mkdir()
    sent = far / "shop.csr"
    sent.write_bytes((home / "shop.csr").read_bytes())
    assert b"PRIVATE" not in sent.read_bytes()
    (home / "shop.pem").write_bytes(sign_request(keys, FEDERATION, "shop", sent, days=30))
    (home / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    keyring = read_keyring(home, "shop")
    trusted = make_trust(keyring, FEDERATION, {"shop": [pin]})
    assert trusted.check(keyring.identity.certificate, datetime.now(UTC)) == "shop"
    assert [path.name for path in far.iterdir()] == ["shop.csr"]
    assert (home / "shop.key").stat().st_mode & 0o777 == 0o600


def test_a_renewal_keeps_the_key_and_so_the_pin(tmp_path: Path) -> None:
    first = request_certificate(tmp_path, FEDERATION, "shop")
    key = (tmp_path / "shop.key").read_bytes()
    assert request_certificate(tmp_path, FEDERATION, "shop") == first
    assert (tmp_path / "shop.key").read_bytes() == key


def test_request_and_certificate_have_one_pin(keys: Path, tmp_path: Path) -> None:
    pin = request_certificate(tmp_path, FEDERATION, "shop")
    made = tmp_path / "shop.pem"
    made.write_bytes(sign_request(keys, FEDERATION, "shop", tmp_path / "shop.csr"))
    certificate = x509.load_pem_x509_certificate(made.read_bytes())
    assert read_pin(tmp_path / "shop.csr") == read_pin(made) == fingerprint(certificate) == pin


def test_formatted_pin_has_all_digits(tmp_path: Path) -> None:
    pin = request_certificate(tmp_path, FEDERATION, "shop")
    lines = list(format_pin(pin))
    assert [len(line.split()) for line in lines] == [4, 4, 4, 4]
    assert "sha256:" + "".join(lines).replace(" ", "") == pin


def test_a_request_of_another_party_is_refused(keys: Path, tmp_path: Path) -> None:
    request_certificate(tmp_path, FEDERATION, "hospital")
    refuse(keys, tmp_path / "hospital.csr", "party/hospital'; expected")


def test_a_request_for_another_federation_is_refused(keys: Path, tmp_path: Path) -> None:
    request_certificate(tmp_path, "elsewhere", "shop")
    refuse(keys, tmp_path / "shop.csr", "requests the name 'spiffe://elsewhere/party/shop'")


def test_a_wrong_name_is_shown_without_its_control_characters(keys: Path, tmp_path: Path) -> None:
    path = write_request(tmp_path, ec.generate_private_key(P256), "spiffe://trial/\x1b[2Jshop")
    refuse(keys, path, r"\\x1b\[2Jshop")


@pytest.mark.parametrize("uris", [(), (ours(), party_uri(FEDERATION, "bank"))])
def test_a_request_with_no_or_two_names_is_refused(
    keys: Path, tmp_path: Path, uris: tuple[str, ...]
) -> None:
    path = write_request(tmp_path, ec.generate_private_key(P256), *uris)
    refuse(keys, path, f"requests {len(uris)} URI names")


@pytest.mark.parametrize("kind", ["rsa-1024", "rsa-2048", "p-384", "ed25519"])
def test_a_weak_or_unfit_key_is_refused(keys: Path, tmp_path: Path, kind: str) -> None:
    made = {
        "rsa-1024": lambda: rsa.generate_private_key(65_537, 1024),
        "rsa-2048": lambda: rsa.generate_private_key(65_537, 2048),
        "p-384": lambda: ec.generate_private_key(P384),
        "ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    refuse(keys, write_request(tmp_path, made[kind](), ours()), "is not a P-256 key")


def test_a_request_that_its_key_did_not_sign_is_refused(keys: Path, tmp_path: Path) -> None:
    """The requester does not own the public key of the request."""
    path = write_request(tmp_path, ec.generate_private_key(P256), ours())
    encoded = x509.load_pem_x509_csr(path.read_bytes()).public_bytes(serialization.Encoding.DER)
    forged = encoded[:-1] + bytes([encoded[-1] ^ 1])
    made = x509.load_der_x509_csr(forged).public_bytes(serialization.Encoding.PEM)
    path.write_bytes(made)
    refuse(keys, path, "not signed by the key that it contains")


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA", b"x"])
def test_file_that_is_no_request_is_refused(keys: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "shop.csr"
    path.write_bytes(content)
    refuse(keys, path, "is not a certificate request")
    with pytest.raises(IdentityError, match="neither a certificate nor a request"):
        read_pin(path)


def test_a_request_larger_than_any_is_refused(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "shop.csr"
    path.write_bytes(bytes(70_000))
    with pytest.raises(IdentityError, match="is larger than 65536 bytes"):
        sign_request(keys, FEDERATION, "shop", path)


def test_an_authority_with_another_s_key_signs_nothing(keys: Path, tmp_path: Path) -> None:
    make_authority(tmp_path / "other", FEDERATION)
    request_certificate(tmp_path, FEDERATION, "shop")
    (tmp_path / "other" / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    with pytest.raises(IdentityError, match=r"does not match the certificate ca\.pem"):
        sign_request(tmp_path / "other", FEDERATION, "shop", tmp_path / "shop.csr")


def test_an_authority_with_a_key_of_another_kind_signs_nothing(keys: Path, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    (tmp_path / "ca.key").write_bytes(private_key_pem(ed25519.Ed25519PrivateKey.generate()))
    request_certificate(tmp_path, FEDERATION, "shop")
    with pytest.raises(IdentityError, match=r"ca\.key is not a key on an elliptic curve"):
        sign_request(tmp_path, FEDERATION, "shop", tmp_path / "shop.csr")


def test_no_request_is_made_with_a_key_that_no_party_may_have(tmp_path: Path) -> None:
    (tmp_path / "shop.key").write_bytes(private_key_pem(ec.generate_private_key(P384)))
    with pytest.raises(IdentityError, match="is not a P-256 key"):
        request_certificate(tmp_path, FEDERATION, "shop")
    assert not (tmp_path / "shop.csr").exists()


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    make_authority(tmp_path, FEDERATION, days=3)
    request_certificate(tmp_path, FEDERATION, "shop")
    made = sign_request(tmp_path, FEDERATION, "shop", tmp_path / "shop.csr", days=365)
    end = x509.load_pem_x509_certificate((tmp_path / "ca.pem").read_bytes()).not_valid_after_utc
    assert x509.load_pem_x509_certificate(made).not_valid_after_utc == end


def test_an_authority_that_has_ended_signs_nothing(tmp_path: Path) -> None:
    make_authority(tmp_path, FEDERATION, days=0)
    sleep(1.1)  # certificates have a resolution of one second
    request_certificate(tmp_path, FEDERATION, "shop")
    with pytest.raises(IdentityError, match="expired on"):
        sign_request(tmp_path, FEDERATION, "shop", tmp_path / "shop.csr")
