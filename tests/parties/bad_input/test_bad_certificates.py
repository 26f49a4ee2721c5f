"""A party's own certificate or key that cannot be used: refused before it connects."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command_trial import CANARIES, CommandResult, Trial, edited_config, make_trial
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from forge import Authority, Key, Leaf, authority, write

from protocol.credentials import fingerprint
from protocol.keyring import issue_certificate, make_authority
from tests.conftest import HUB, SPOKE


@pytest.fixture(scope="session")
def root(keys: Path) -> Authority:
    return authority(keys)


@pytest.fixture
def trial(tmp_path: Path, keys: Path) -> Trial:
    return make_trial(tmp_path, keys)


@pytest.fixture
def certs(trial: Trial) -> Path:
    return trial.folder / "certs"


def with_leaf(trial: Trial, root: Authority, leaf: Leaf, key: Key | None = None) -> CommandResult:
    """Start the shop with this certificate."""
    return with_files(trial, leaf.issue(root, key))


def with_files(trial: Trial, leaf: tuple[x509.Certificate, Key], *more: str) -> CommandResult:
    folder = write(trial.folder / "certs", trial.keys, SPOKE, leaf)
    return trial.start("passive", SPOKE, "--certificates", str(folder), *more)


# --- the party's own certificate, before it connects ---------------------------------------------

OWN: dict[str, tuple[Leaf, str]] = {
    "two URIs": (Leaf(uris=[f"spiffe://trial/party/{n}" for n in (SPOKE, HUB)]), "2 URI names"),
    "no URI": (Leaf(uris=[]), "0 URI names; expected exactly one"),
    "wrong scheme": (Leaf(uris=["https://trial/party/shop"]), "of the federation 'trial'"),
    "other federation": (Leaf(uris=["spiffe://other/party/shop"]), "of the federation 'trial'"),
    "name of another party": (Leaf(name=HUB), "the certificate of shop is issued to bank"),
    "authority as leaf": (Leaf(ca=True, signs_certificates=True), "an authority's certificate"),
}


@pytest.mark.parametrize("fault", OWN)
def test_own_invalid_certificate_is_refused_at_the_start(
    trial: Trial, root: Authority, fault: str
) -> None:
    with_leaf(trial, root, OWN[fault][0]).expect(5, OWN[fault][1])


def test_the_authority_s_own_certificate_is_no_party_s(trial: Trial, root: Authority) -> None:
    with_files(trial, (root.certificate, root.key)).expect(5, "has no alternative names")


def test_expired_is_refused_with_dates_and_our_clock(trial: Trial, root: Authority) -> None:
    leaf = Leaf(start=timedelta(days=-9), end=timedelta(days=-2))
    now = f"this machine's time is {datetime.now(UTC):%Y-%m-%d}"
    with_leaf(trial, root, leaf).expect(
        5, "a certificate is valid from", now, "hint: renew the certificate"
    )


def test_not_yet_valid_is_refused_with_dates(trial: Trial, root: Authority) -> None:
    start = datetime.now(UTC) + timedelta(days=2)
    result = with_leaf(trial, root, Leaf(start=timedelta(days=2)))
    result.expect(
        5, f"valid from {start:%Y-%m-%d}", "hint: renew the certificate, or set the clock"
    )


@pytest.mark.parametrize(
    ("left", "message"), [(0.5, "1 day,"), (3, "7 days"), (9, "14"), (20, "30")]
)
def test_certificate_that_expires_soon_gives_a_warning(
    trial: Trial, root: Authority, left: float, message: str
) -> None:
    result = with_leaf(trial, root, Leaf(end=timedelta(days=left)))
    result.expect(
        6, "warning: our certificate ends within", message, "renew it", "no process listens"
    )


def test_certificate_that_expires_later_gives_no_warning(trial: Trial) -> None:
    assert "ends within" not in trial.start().expect(6, "no process listens")


def test_strict_settings_turn_the_warning_into_an_error(trial: Trial, root: Authority) -> None:
    trial.write(edited_config("[settings.shop]", "[settings.shop]\nstrict = true"))
    result = with_leaf(trial, root, Leaf(end=timedelta(days=20)))
    result.expect(5, "our certificate ends within 30 days", "the settings have strict = true")
    trial.start().expect(5, "the agreement pins no keys", "the settings have strict = true")


def test_certificate_of_another_authority_is_refused(trial: Trial, certs: Path) -> None:
    make_authority(certs, "trial")
    issue_certificate(certs, "trial", SPOKE)
    (certs / "ca.pem").write_bytes((trial.keys / "ca.pem").read_bytes())
    result = trial.start("passive", SPOKE, "--certificates", str(certs))
    result.expect(
        5, "not issued by the authority of 'trial'", "hint: use the same ca.pem at every party"
    )


def test_key_of_another_certificate_is_refused(trial: Trial, root: Authority) -> None:
    leaf, _ = Leaf().issue(root)
    with_files(trial, (leaf, ec.generate_private_key(ec.SECP256R1()))).expect(
        5,
        "shop.key does not match the certificate shop.pem",
        "hint: use the certificate and the key that were made together",
    )


@pytest.mark.parametrize("mode", [0o644, 0o640])
def test_key_file_readable_by_others_is_refused_with_a_hint(
    trial: Trial, root: Authority, certs: Path, mode: int
) -> None:
    write(certs, trial.keys, SPOKE, Leaf().issue(root))
    (certs / "shop.key").chmod(mode)
    result = trial.start("passive", SPOKE, "--certificates", str(certs))
    result.expect(5, "shop.key can be read by other users (-rw-r--", "hint: run chmod 600 /")


def test_key_file_of_another_user_is_refused_with_a_hint(
    trial: Trial, root: Authority, certs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(certs, trial.keys, SPOKE, Leaf().issue(root))
    us = os.geteuid()
    if us == 0:
        os.chown(certs / "shop.key", 4711, -1)
        us_then, owner = 0, 4711
    else:  # only root can change the owner: pretend to be another user
        monkeypatch.setattr(os, "geteuid", lambda: us + 1)
        us_then, owner = us + 1, us
    result = trial.start("passive", SPOKE, "--certificates", str(certs))
    result.expect(5, f"shop.key belongs to user {owner}; expected", f"hint: run chown {us_then} /")


def test_pipe_in_place_of_a_key_is_refused(trial: Trial, root: Authority, certs: Path) -> None:
    write(certs, trial.keys, SPOKE, Leaf().issue(root))
    (certs / "shop.key").unlink()
    os.mkfifo(certs / "shop.key", 0o600)
    result = trial.start("passive", SPOKE, "--certificates", str(certs))
    result.expect(5, "shop.key is not a regular file")


def test_key_that_is_not_pem_is_refused_and_not_shown(
    trial: Trial, root: Authority, certs: Path
) -> None:
    write(certs, trial.keys, SPOKE, Leaf().issue(root))
    text = f"-----BEGIN PRIVATE KEY-----\n{CANARIES[4]}\n-----END PRIVATE KEY-----\n"
    (certs / "shop.key").write_text(text)
    result = trial.start("passive", SPOKE, "--certificates", str(certs), "--debug")
    result.expect(5, "or shop.key in", "is not a PEM file, or its key has an unknown type")


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (rsa.generate_private_key(65537, 1024), "RSA-1024"),
        (rsa.generate_private_key(65537, 3072), "RSA-3072"),
        (ec.generate_private_key(ec.SECP384R1()), "secp384r1"),
        (ec.generate_private_key(ec.BrainpoolP256R1()), "brainpoolP256r1"),
        (ed25519.Ed25519PrivateKey.generate(), "Ed25519"),
    ],
    ids=["RSA-1024", "RSA-3072", "P-384", "brainpool", "Ed25519"],
)
def test_weak_or_unusual_key_is_refused_with_what_is_allowed(
    trial: Trial, root: Authority, key: Key, kind: str
) -> None:
    result = with_leaf(trial, root, Leaf(), key)
    result.expect(5, f"must be P-256 (got {kind})", "hint: make a key with: openssl")


def with_algorithm_name(
    leaf: x509.Certificate, by: Authority, hash_: hashes.HashAlgorithm
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(leaf.subject)
        .issuer_name(leaf.issuer)
        .public_key(leaf.public_key())
        .serial_number(leaf.serial_number)
        .not_valid_before(leaf.not_valid_before_utc)
        .not_valid_after(leaf.not_valid_after_utc)
    )
    for extension in leaf.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(by.key, hash_)


def test_certificate_signed_with_sha_1_is_refused(trial: Trial, root: Authority) -> None:
    leaf, key = Leaf().issue(root)
    der = with_algorithm_name(leaf, root, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    # ecdsa-with-SHA256 becomes ecdsa-with-SHA1: no library here signs with SHA-1 any more
    sha256, sha1 = bytes.fromhex("06082a8648ce3d040302"), bytes.fromhex("06072a8648ce3d0401")
    assert der.count(sha256) == 2
    old = x509.load_der_x509_certificate(_shorter(der, sha256, sha1))
    result = with_files(trial, (old, key))
    result.expect(5, "must be SHA-256, SHA-384 or SHA-512 (got SHA1)")


def _shorter(der: bytes, old: bytes, new: bytes) -> bytes:
    """Return the certificate with another algorithm name and corrected lengths."""

    def length(size: int) -> bytes:
        return bytes([0x82]) + size.to_bytes(2, "big")

    body = der[4:]
    assert der[:2] == body[:2] == b"\x30\x82"
    inner_size = int.from_bytes(body[2:4], "big")
    inner, rest = body[4 : 4 + inner_size], body[4 + inner_size :]

    def renamed(part: bytes) -> bytes:
        return part.replace(b"\x30\x0a" + old, b"\x30\x09" + new)

    inner, rest = renamed(inner), renamed(rest)
    body = b"\x30" + length(len(inner)) + inner + rest
    return b"\x30" + length(len(body)) + body


def test_weak_authority_is_refused_with_what_is_allowed(trial: Trial, certs: Path) -> None:
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "weak")])
    now = datetime.now(UTC)
    weak = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=60))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    write(certs, trial.keys, SPOKE, Leaf().issue(Authority(weak, key)))  # type: ignore[arg-type]
    (certs / "ca.pem").write_bytes(weak.public_bytes(serialization.Encoding.PEM))
    result = trial.start("passive", SPOKE, "--certificates", str(certs))
    result.expect(5, "the authority's key must be P-256, P-384, P-521 or RSA-3072 (got RSA-1024)")


def test_key_that_differs_from_the_pin_is_refused_with_both_and_a_hint(
    trial: Trial, root: Authority
) -> None:
    leaf, key = Leaf().issue(root)
    pinned = "sha256:" + "0" * 64
    result = with_files(trial, (leaf, key), "--set", f'parties.shop.pins=["{pinned}"]')
    message = f"the key of shop has the pin {fingerprint(leaf)}; expected {pinned}"
    result.expect(5, message, "hint: if shop has a new key", "parties.shop.pins at every party")


def test_revoked_key_is_refused(trial: Trial, root: Authority) -> None:
    leaf, key = Leaf().issue(root)
    pin = fingerprint(leaf)
    trial.write(edited_config("[settings.shop]", f'[settings.shop]\ndenied = ["{pin}"]'))
    with_files(trial, (leaf, key)).expect(5, f"the key of shop is denied ({pin})")


@pytest.mark.parametrize("text", ["{pin}\n", "# old keys\n\n{pin}  # the shop's, stolen\n"])
def test_key_in_the_file_of_denied_keys_is_refused(
    trial: Trial, root: Authority, text: str
) -> None:
    leaf, key = Leaf().issue(root)
    trial.write(edited_config("[settings.shop]", '[settings.shop]\ndenied_file = "denied.txt"'))
    (trial.folder / "denied.txt").write_text(text.format(pin=fingerprint(leaf)))
    with_files(trial, (leaf, key)).expect(5, "the key of shop is denied")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read the deny list"),
        (b"\xff\xfe", "the file is not UTF-8"),
        (b"# keys\nsha256:12\n", "denied.txt: line 2 is not a pin"),
        (CANARIES[5].encode(), "denied.txt: line 1 is not a pin"),
    ],
)
def test_unreadable_file_of_denied_keys_is_refused(
    trial: Trial, content: bytes | None, message: str
) -> None:
    trial.write(edited_config("[settings.shop]", '[settings.shop]\ndenied_file = "denied.txt"'))
    if content is not None:
        (trial.folder / "denied.txt").write_bytes(content)
    trial.start().expect(5, message, "hint:")


def test_pipe_in_place_of_denied_keys_is_refused(trial: Trial) -> None:
    trial.write(edited_config("[settings.shop]", '[settings.shop]\ndenied_file = "denied.txt"'))
    os.mkfifo(trial.folder / "denied.txt")
    trial.start().expect(5, "denied.txt is not a regular file")
