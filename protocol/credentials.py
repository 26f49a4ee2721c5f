"""Who is who: certificates, the rules for a party's leaf, and signatures with identity keys.

A party is the single URI name ``spiffe://<federation>/party/<name>`` in its certificate. gRPC
checks the chain but not that name: it accepts two URIs, and an authority's certificate as a leaf.
So every certificate that names a party, whether from TLS or from a message, passes ``check``.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from time import sleep
from typing import TypeGuard, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from protocol.denied import DenyFile
from protocol.errors import IdentityError

SKEW = timedelta(minutes=5)
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_KEY_HINT = "make one with: openssl ecparam -name prime256v1 -genkey, and have it signed"
_EKU = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


def party_uri(federation: str, name: str) -> str:
    """The URI name of a party."""
    return f"spiffe://{federation}/party/{name}"


def fingerprint(holder: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The pin of the key in a certificate or request: SHA-256 over its SubjectPublicKeyInfo."""
    spki = holder.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return "sha256:" + sha256(spki).hexdigest()


def is_party_key(key: object) -> TypeGuard[ec.EllipticCurvePublicKey]:
    """Whether a public key is of the kind that a party must have, P-256."""
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whom we believe: the federation's own authority and, where given, pinned keys."""

    federation: str
    authority: x509.Certificate
    pins: Mapping[str, Sequence[str]] = field(default_factory=dict)  # party -> its keys' pins
    denied: frozenset[str] = frozenset()
    denied_file: DenyFile | None = None

    def denied_now(self) -> frozenset[str]:
        """Pins of the keys that are no longer believed, as of this moment.

        Raises:
            IdentityError: the file of denied keys cannot be read; then nobody is believed.
        """
        return self.denied if self.denied_file is None else self.denied | self.denied_file.pins()

    def check(self, certificate: x509.Certificate, now: datetime) -> str:
        """The party that ``certificate`` names.

        Raises:
            IdentityError: the first rule that the certificate breaks.
        """
        self._issued(certificate)  # first: nothing in it is believed, or even parsed, before
        name = self._party(certificate)
        _check_validity(self.authority, now)
        _check_validity(certificate, now)
        _check_leaf(certificate)
        pin = fingerprint(certificate)
        if pin in self.denied_now():
            raise IdentityError(f"the key of {name} was revoked ({pin})")
        if name in self.pins and not any(compare_digest(pin, known) for known in self.pins[name]):
            raise IdentityError(
                f"the key of {name} is {pin}; pinned: {', '.join(self.pins[name])}",
                f"if the key was renewed, compare the new fingerprint with {name} by another way, "
                f"add it to parties.{name}.pins at every party, and take the old one out later",
            )
        return name

    def _party(self, certificate: x509.Certificate) -> str:
        names = _alternative_names(certificate)
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        if len(uris) != 1:
            raise IdentityError(
                f"a certificate with {len(uris)} URI names; a party has exactly one"
            )
        prefix = party_uri(self.federation, "")
        name = uris[0].removeprefix(prefix)
        if not uris[0].startswith(prefix) or not name or "/" in name:
            raise IdentityError(f"the certificate's URI name is no party of {self.federation!r}")
        if not names.get_values_for_type(x509.DNSName):
            raise IdentityError("a certificate without a DNS name; a party has at least one")
        return name

    def _issued(self, certificate: x509.Certificate) -> None:
        _check_signature_hash(certificate)
        _check_authority_key(self.authority)
        try:
            certificate.verify_directly_issued_by(self.authority)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
            raise IdentityError(
                f"the certificate was not issued by the authority of {self.federation!r}",
                "every party must hold the same ca.pem",
            ) from error


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise IdentityError("a certificate without alternative names") from error


def _check_validity(certificate: x509.Certificate, now: datetime) -> None:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not start - SKEW <= now <= end + SKEW:
        raise IdentityError(
            f"a certificate valid from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC; "
            f"here it is {now:%Y-%m-%d %H:%M}",
            "renew it, or set the clock",
        )


def _check_leaf(certificate: x509.Certificate) -> None:
    found = certificate.extensions
    try:
        basic = found.get_extension_for_class(x509.BasicConstraints).value
        usage = found.get_extension_for_class(x509.KeyUsage)
        extended = found.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound as error:
        raise IdentityError(f"a party's certificate lacks {error.oid._name}") from error
    if basic.ca or usage.value.key_cert_sign:
        raise IdentityError("an authority's certificate is used as a party's")
    if not usage.critical or not usage.value.digital_signature:
        raise IdentityError("key usage must be critical and allow signatures")
    if not all(purpose in extended for purpose in _EKU):
        raise IdentityError("extended key usage must allow client and server authentication")
    check_party_key(certificate)


def public_key(certificate: x509.Certificate) -> CertificatePublicKeyTypes:
    """The key of a certificate; raises ``IdentityError`` for a curve that nobody knows."""
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError("a certificate's key is of an unknown kind", _KEY_HINT) from error


def check_party_key(certificate: x509.Certificate) -> None:
    """Refuse every key but P-256: gRPC's TLS 1.3 takes no Ed25519, and the rest is weak or rare."""
    key = public_key(certificate)
    if not is_party_key(key):
        raise IdentityError(f"a party's key must be P-256, and this is {_kind(key)}", _KEY_HINT)


def _check_authority_key(authority: x509.Certificate) -> None:
    key = public_key(authority)
    strong = isinstance(key, rsa.RSAPublicKey) and key.key_size >= 3072
    if not strong and not (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES)
    ):
        raise IdentityError(
            f"the authority's key is {_kind(key)}; it must be P-256, P-384, P-521 or RSA-3072",
            "make a new authority and have every party's certificate signed anew",
        )


def _check_signature_hash(certificate: x509.Certificate) -> None:
    try:
        found = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        found = None
    if not isinstance(found, _HASHES):
        raise IdentityError(
            f"a certificate is signed with {found.name.upper() if found else 'an unknown hash'}; "
            "it must be SHA-256, SHA-384 or SHA-512",
            "have it signed anew",
        )


def _kind(key: CertificatePublicKeyTypes) -> str:
    match key:
        case rsa.RSAPublicKey():
            return f"RSA-{key.key_size}"
        case ec.EllipticCurvePublicKey():
            return key.curve.name
    return type(key).__name__.removeprefix("_").removesuffix("PublicKey")


def hesitate() -> None:
    """Wait a short, random time before a refusal: how long it took must not tell the reason."""
    sleep(0.05 + secrets.randbelow(200) / 1000)


def purpose_bytes(purpose: str, parts: Sequence[bytes]) -> bytes:
    """What is signed: the purpose, so that no signature serves twice, and length-prefixed parts."""
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return f"vfl/{purpose}/v1\n".encode() + framed


@dataclass(frozen=True, slots=True)
class Identity:
    """Our own certificate and key."""

    name: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def der(self) -> bytes:
        """The certificate as it travels in messages."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def sign(self, purpose: str, *parts: bytes) -> bytes:
        """ECDSA over ``parts``, bound to ``purpose``."""
        return self.key.sign(purpose_bytes(purpose, parts), ec.ECDSA(hashes.SHA256()))


def verify(
    trust: Trust, der: bytes, signature: bytes, now: datetime, purpose: str, *parts: bytes
) -> str:
    """The party that signed ``parts``.

    Raises:
        IdentityError: the certificate breaks a rule, or the signature is not by its key.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise IdentityError("a message carries no readable certificate") from error
    name = trust.check(certificate, now)
    key = cast(ec.EllipticCurvePublicKey, certificate.public_key())  # check() allows P-256 only
    try:
        key.verify(signature, purpose_bytes(purpose, parts), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise IdentityError(f"the signature of {name} for {purpose!r} does not hold") from error
    return name
