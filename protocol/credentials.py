"""Who is who: certificates, the rules for a party's leaf, and signatures with identity keys.

A party is the single URI name ``spiffe://<federation>/party/<name>`` in its certificate. gRPC
checks the chain but not that name: it accepts two URIs, and an authority's certificate as a leaf.
So every certificate that names a party, whether from TLS or from a message, passes ``check``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import TypeGuard, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from protocol.errors import IdentityError

SKEW = timedelta(minutes=5)
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
        if pin in self.denied:
            raise IdentityError(f"the key of {name} was revoked ({pin})")
        if name in self.pins and not any(compare_digest(pin, known) for known in self.pins[name]):
            raise IdentityError(
                f"the key of {name} is {pin}; pinned: {', '.join(self.pins[name])}",
                "if the key was renewed, compare fingerprints with the party and renew the pin",
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
    if not is_party_key(certificate.public_key()):
        raise IdentityError("a party's key must be P-256 (Ed25519 leaves fail in gRPC)")


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
