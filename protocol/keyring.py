"""Certificate files: reading a party's files, and making an authority and certificates."""

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocol.credentials import Identity, Trust, certificate_key, check_party_key, party_uri
from protocol.deny_list import DenyList
from protocol.errors import IdentityError

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca.key"
PEM = serialization.Encoding.PEM
_Parsed = TypeVar("_Parsed")
_LARGEST = 2**16  # bytes of a certificate or key file


@dataclass(frozen=True, slots=True)
class Keyring:
    """The three PEM files of one party: their content and the parsed certificates and key."""

    identity: Identity  # the party's own certificate and key
    authority: x509.Certificate  # the certificate of the federation's authority
    authority_pem: bytes  # content of ``ca.pem``
    certificate_pem: bytes  # content of ``<name>.pem``
    key_pem: bytes  # content of ``<name>.key``

    def __repr__(self) -> str:
        return f"Keyring({self.identity.name})"


def read_keyring(folder: Path, name: str) -> Keyring:
    """Read ``ca.pem``, ``<name>.pem`` and ``<name>.key``.

    Raises:
        IdentityError: a file is absent or unreadable, other users can read the key file, or the key
            does not match the certificate.
    """
    authority_pem = read_certificate_file(folder / AUTHORITY)
    certificate_pem = read_certificate_file(folder / f"{name}.pem")
    key_path = folder / f"{name}.key"
    key_pem = read_certificate_file(key_path, private=True)
    try:
        authority = x509.load_pem_x509_certificate(authority_pem)
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
    except TypeError as error:
        raise IdentityError(
            f"{key_path} is encrypted with a password",
            "store the key without a password in a file that only this user can read",
        ) from error
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise IdentityError(
            f"ca.pem, {name}.pem or {name}.key in {folder} is not a PEM file, or its key has an "
            "unknown type",
            "expected two PEM certificates and one PEM key on P-256",
        ) from error
    if key.public_key() != certificate_key(certificate):
        raise IdentityError(
            f"{key_path} does not match the certificate {name}.pem",
            "use the certificate and the key that were made together",
        )
    check_party_key(certificate)
    return Keyring(
        Identity(name, certificate, cast(ec.EllipticCurvePrivateKey, key)),
        authority, authority_pem, certificate_pem, key_pem,
    )  # fmt: skip


def certificate_days_left(certificate: x509.Certificate, now: datetime) -> float:
    """Return the days from ``now`` until ``certificate`` expires; negative if expired."""
    return (certificate.not_valid_after_utc - now) / timedelta(days=1)


def read_certificate_file(path: Path, *, private: bool = False) -> bytes:
    """Return the content of a certificate, request or key file.

    Raises:
        IdentityError: the file is absent, unreadable, too large or not a regular file, or a
            ``private`` file can be read by other users.
    """
    try:
        # Non-blocking: opening a pipe without a writer would block for ever.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise IdentityError(f"{path} is not a regular file")
            if private:
                _check_private(path, state)
            content = file.read(_LARGEST + 1)
    except OSError as error:
        absent = isinstance(error, FileNotFoundError)
        make = "vfl pair makes certificates with the other parties, vfl certs those of a trial"
        account = "check which account runs vfl, and the file's permissions"
        raise IdentityError(
            f"cannot read {path}: {error.strerror}", make if absent else account
        ) from error
    if len(content) > _LARGEST:
        raise IdentityError(
            f"{path} is larger than {_LARGEST} bytes; expected a certificate, request or key"
        )
    return content


def _check_private(path: Path, state: os.stat_result) -> None:
    if state.st_uid != os.geteuid():
        raise IdentityError(
            f"{path} belongs to user {state.st_uid}; expected the current user {os.geteuid()}",
            f"run chown {os.geteuid()} {path}",
        )
    if state.st_mode & 0o077:
        raise IdentityError(
            f"{path} can be read by other users ({stat.filemode(state.st_mode)})",
            f"run chmod 600 {path}",
        )


def make_authority(folder: Path, federation: str, days: int = 365) -> None:
    """Write ``ca.key`` and ``ca.pem`` of a new authority.

    Raises:
        IdentityError: one of the files exists already; nothing is written.
    """
    for path in (folder / AUTHORITY_KEY, folder / AUTHORITY):
        if path.exists():
            raise _existing(path)
    key = make_party_key()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_new_file(folder / AUTHORITY_KEY, private_key_pem(key), 0o600)
    _write_authority(folder, key, federation, days)


def complete_authority(folder: Path, federation: str, copy: Path, days: int = 365) -> None:
    """Write ``ca.pem`` beside ``ca.key``, if an interruption left the key alone.

    Args:
        folder: folder of the authority.
        federation: name of the federation.
        copy: a file that may be a copy of ``ca.pem``; it is used if it has the key of the authority
            and else a new certificate is made for this key.
        days: days until a new certificate ends.

    Raises:
        IdentityError: a file cannot be read, or is not what its name says.
    """
    if (folder / AUTHORITY).exists():
        return
    key = _authority_key(folder)
    if copy.exists():
        known = _parsed(x509.load_pem_x509_certificate, copy)
        if known.public_key() == key.public_key():
            write_new_file(folder / AUTHORITY, read_certificate_file(copy), 0o644)
            return
    _write_authority(folder, key, federation, days)


def _write_authority(
    folder: Path, key: ec.EllipticCurvePrivateKey, federation: str, days: int
) -> None:
    name = x509_name(f"{federation} authority")
    certificate = (
        _builder(name, name, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_new_file(folder / AUTHORITY, certificate.public_bytes(PEM), 0o644)


def _authority_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    key = _parsed(_unlocked, folder / AUTHORITY_KEY)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IdentityError(
            f"{folder / AUTHORITY_KEY} is not a key on an elliptic curve",
            "expected the file ca.key that vfl pair or vfl certs wrote",
        )
    return key


def issue_certificate(
    folder: Path, federation: str, name: str, hosts: Sequence[str] = (), days: int = 365
) -> None:
    """Write a certificate and key for party ``name``, signed by the authority in ``folder``.

    Use this function for trials only. In production each party makes its own key with
    ``request_certificate``.
    """
    key = make_party_key()
    certificate = sign_certificate(folder, federation, name, key.public_key(), hosts, days)
    write_new_file(folder / f"{name}.key", private_key_pem(key), 0o600)
    write_new_file(folder / f"{name}.pem", certificate.public_bytes(PEM), 0o644)


def sign_certificate(
    authority: Path,
    federation: str,
    name: str,
    key: ec.EllipticCurvePublicKey,
    hosts: Sequence[str] = (),
    days: int = 365,
) -> x509.Certificate:
    """Return a certificate for the ``key`` of party ``name``, signed by an authority.

    ``authority`` is the folder with the authority's files. The first DNS name in the certificate is
    the name of the party. A spoke looks for the hub's name among the DNS names of the hub's
    certificate; the network address of the hub may differ from these names.

    Raises:
        IdentityError: the authority's files cannot be read, do not match, or have expired.
    """
    issuer = _parsed(x509.load_pem_x509_certificate, authority / AUTHORITY)
    signer = _authority_key(authority)
    if signer.public_key() != issuer.public_key():
        raise IdentityError(
            f"{authority / AUTHORITY_KEY} does not match the certificate {AUTHORITY}"
        )
    if issuer.not_valid_after_utc < datetime.now(UTC):
        raise IdentityError(
            f"{authority / AUTHORITY} expired on {issuer.not_valid_after_utc:%Y-%m-%d}",
            "make a new authority, and new certificates for all parties",
        )
    names = [x509.UniformResourceIdentifier(party_uri(federation, name))]
    dns = [x509.DNSName(host) for host in (name, *hosts)]
    return (
        _builder(x509_name(name), issuer.subject, key, days, issuer.not_valid_after_utc)
        .add_extension(x509.SubjectAlternativeName([*names, *dns]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
            ),
            critical=False,
        )
        .sign(signer, hashes.SHA256())
    )


def _parsed(parse: Callable[[bytes], _Parsed], path: Path) -> _Parsed:
    try:
        return parse(read_certificate_file(path))
    except (TypeError, ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise IdentityError(
            f"{path} is not a PEM file, or is encrypted with a password",
            "expected the files ca.pem and ca.key that the command 'vfl certs' wrote",
        ) from error


def _unlocked(content: bytes) -> PrivateKeyTypes:
    return serialization.load_pem_private_key(content, password=None)


def make_party_key() -> ec.EllipticCurvePrivateKey:
    """Return a new private key on P-256, the only kind that a party may have."""
    return ec.generate_private_key(ec.SECP256R1())


def x509_name(name: str) -> x509.Name:
    """Return an X.509 subject whose only attribute is the common name ``name``."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def make_trust(
    keyring: Keyring,
    federation: str,
    pins: dict[str, Sequence[str]],
    denied: Sequence[str] = (),
    denied_file: Path | None = None,
) -> Trust:
    """Return the rules for trusting certificates: authority, pinned keys and denied keys."""
    file = DenyList(denied_file) if denied_file else None
    return Trust(federation, keyring.authority, pins, frozenset(denied), file)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    days: int,
    last: datetime | None = None,
) -> x509.CertificateBuilder:
    """Return a certificate builder; the certificate ends at ``last`` at the latest."""
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(min(end, last or end))
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def private_key_pem(key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    """Return a private key as the PEM content of its file."""
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def write_new_file(path: Path, content: bytes, mode: int) -> None:
    """Write a new file with the permissions ``mode``.

    Raises:
        IdentityError: the file exists already.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise _existing(path) from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _existing(path: Path) -> IdentityError:
    return IdentityError(f"{path} already exists and is not overwritten", "choose another folder")
