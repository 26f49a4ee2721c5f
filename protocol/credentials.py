"""Identities of parties: rules for their certificates, and signatures with identity keys.

A certificate names its party by its only URI name, ``spiffe://<federation>/party/<name>``. gRPC
checks the certificate chain, but not the name: gRPC also accepts a certificate with two URI names,
or an authority's certificate in place of a party's. ``Trust.check`` therefore checks every
certificate of a party, whether the certificate comes from TLS or from a message.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from time import sleep
from typing import TypeGuard

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from protocol.deny_list import DenyList
from protocol.errors import IdentityError

CLOCK_SKEW = timedelta(minutes=5)
_CURVES = (ec.SECP256R1, ec.SECP384R1, ec.SECP521R1)
_HASHES = (hashes.SHA256, hashes.SHA384, hashes.SHA512)
_KEY_HINT = "make a key with: openssl ecparam -name prime256v1 -genkey, and have it signed"
_EKU = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH)


def party_uri(federation: str, name: str) -> str:
    """Return the URI name of a party."""
    return f"spiffe://{federation}/party/{name}"


def fingerprint(holder: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """Return the pin of a key: the SHA-256 of its SubjectPublicKeyInfo, as ``sha256:<hex>``."""
    spki = holder.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return "sha256:" + sha256(spki).hexdigest()


def is_party_key(key: object) -> TypeGuard[ec.EllipticCurvePublicKey]:
    """Return whether a public key is a P-256 key, the only kind that a party may have."""
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)


@dataclass(frozen=True, slots=True)
class Trust:
    """The trusted authority, the pinned keys and the denied keys of a federation."""

    federation: str  # name of the federation
    authority: x509.Certificate  # the certificate that issued the parties' certificates
    # Per party, the pins of its keys; a party without an entry may have any key.
    pins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    denied: frozenset[str] = frozenset()  # pins of keys that are no longer trusted
    # A file with more pins of denied keys, read again when the file changes.
    denied_file: DenyList | None = None
    # Per party, the pins of keys that it had before: they confirm what it signed then, and no
    # connection.
    former: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def denied_now(self) -> frozenset[str]:
        """Return the pins of all denied keys, including those in the file of denied keys.

        Raises:
            IdentityError: the file of denied keys cannot be read, so no key can be trusted.
        """
        return self.denied if self.denied_file is None else self.denied | self.denied_file.pins()

    def check(self, certificate: x509.Certificate, now: datetime) -> str:
        """Return the party that ``certificate`` names.

        Raises:
            IdentityError: the certificate breaks a rule; the error names the first broken rule.
        """
        self._check_issuer(certificate)  # first, before any other field is parsed
        name = self._party(certificate)
        _check_validity(self.authority, now)
        _check_validity(certificate, now)
        _check_leaf(certificate)
        pin = fingerprint(certificate)
        if pin in self.denied_now():
            raise IdentityError(
                f"the key of {name} is denied ({pin})",
                f"make a new key and certificate for {name}",
            )
        if name in self.pins and not any(compare_digest(pin, known) for known in self.pins[name]):
            raise IdentityError(
                f"the key of {name} has the pin {pin}; expected {' or '.join(self.pins[name])}",
                f"if {name} has a new key, compare the fingerprint over another channel, add the "
                f"new pin to parties.{name}.pins at every party, and remove the old one later",
            )
        return name

    def check_past(self, certificate: x509.Certificate, time: datetime) -> str:
        """Return the party that ``certificate`` named at ``time``, for what it signed then.

        The key may be one that the party had before. Then its pin says whose key it is: another
        authority may have issued the certificate, and the key may be denied by now.

        Raises:
            IdentityError: the certificate breaks a rule, and its key is not a former key.
        """
        if not self.former:
            return self.check(certificate, time)
        certificate_key(certificate)  # raises IdentityError for an unknown type of key
        pin = fingerprint(certificate)
        if any(pin in pins for pins in self.former.values()):
            name = self._party(certificate)
            if pin in self.former.get(name, ()):
                return name
        return self.check(certificate, time)

    def _party(self, certificate: x509.Certificate) -> str:
        names = _alternative_names(certificate)
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        if len(uris) != 1:
            raise IdentityError(
                f"a party's certificate has {len(uris)} URI names; expected exactly one"
            )
        prefix = party_uri(self.federation, "")
        name = uris[0].removeprefix(prefix)
        if not uris[0].startswith(prefix) or not name or "/" in name:
            raise IdentityError(
                "the URI in a party's certificate belongs to no party of the federation "
                f"{self.federation!r}; expected a URI of the form {prefix}NAME"
            )
        if not names.get_values_for_type(x509.DNSName):
            raise IdentityError("a party's certificate has no DNS name; expected at least one")
        return name

    def _check_issuer(self, certificate: x509.Certificate) -> None:
        _check_signature_hash(certificate)
        _check_authority_key(self.authority)
        try:
            certificate.verify_directly_issued_by(self.authority)
        except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as error:
            raise IdentityError(
                f"the certificate was not issued by the authority of {self.federation!r}",
                "use the same ca.pem at every party",
            ) from error


def _alternative_names(certificate: x509.Certificate) -> x509.SubjectAlternativeName:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound as error:
        raise IdentityError(
            "a party's certificate has no alternative names; expected a URI name and a DNS name"
        ) from error


def _check_validity(certificate: x509.Certificate, now: datetime) -> None:
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not start - CLOCK_SKEW <= now <= end + CLOCK_SKEW:
        raise IdentityError(
            f"a certificate is valid from {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, "
            f"but this machine's time is {now:%Y-%m-%d %H:%M} UTC",
            "renew the certificate, or set the clock",
        )


def _check_leaf(certificate: x509.Certificate) -> None:
    found = certificate.extensions
    try:
        basic = found.get_extension_for_class(x509.BasicConstraints).value
        usage = found.get_extension_for_class(x509.KeyUsage)
        extended = found.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound as error:
        raise IdentityError(
            f"a party's certificate does not have the extension {error.oid._name}"
        ) from error
    if basic.ca or usage.value.key_cert_sign:
        raise IdentityError("an authority's certificate is used as a party's certificate")
    if not usage.critical or not usage.value.digital_signature:
        raise IdentityError(
            "the key usage of a party's certificate is not critical, or does not allow digital "
            "signatures"
        )
    if not all(purpose in extended for purpose in _EKU):
        raise IdentityError(
            "the extended key usage of a party's certificate does not allow both client and server "
            "authentication"
        )
    check_party_key(certificate)


def certificate_key(certificate: x509.Certificate) -> CertificatePublicKeyTypes:
    """Return the public key of a certificate.

    Raises:
        IdentityError: the type of the key is unknown.
    """
    try:
        return certificate.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            "the key of a certificate has an unknown type; expected P-256", _KEY_HINT
        ) from error


def check_party_key(certificate: x509.Certificate) -> None:
    """Check that the key of a party's certificate is a P-256 key.

    gRPC's TLS 1.3 does not support Ed25519, and other key types are weak or rare.

    Raises:
        IdentityError: the key is not a P-256 key.
    """
    key = certificate_key(certificate)
    if not is_party_key(key):
        raise IdentityError(f"a party's key must be P-256 (got {_kind(key)})", _KEY_HINT)


def _check_authority_key(authority: x509.Certificate) -> None:
    key = certificate_key(authority)
    strong = isinstance(key, rsa.RSAPublicKey) and key.key_size >= 3072
    if not strong and not (
        isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, _CURVES)
    ):
        raise IdentityError(
            f"the authority's key must be P-256, P-384, P-521 or RSA-3072 (got {_kind(key)})",
            "make a new authority, and sign every party's certificate again",
        )


def _check_signature_hash(certificate: x509.Certificate) -> None:
    try:
        found = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        found = None
    if not isinstance(found, _HASHES):
        raise IdentityError(
            "the hash of a certificate's signature must be SHA-256, SHA-384 or SHA-512 "
            f"(got {found.name.upper() if found else 'an unknown hash'})",
            "sign the certificate again",
        )


def _kind(key: CertificatePublicKeyTypes) -> str:
    match key:
        case rsa.RSAPublicKey():
            return f"RSA-{key.key_size}"
        case ec.EllipticCurvePublicKey():
            return key.curve.name
    return type(key).__name__.removeprefix("_").removesuffix("PublicKey")


def delay_refusal() -> None:
    """Wait a random time of 50 to 250 ms, so that the timing of a refusal hides its reason."""
    sleep(0.05 + secrets.randbelow(200) / 1000)


def signed_bytes(purpose: str, parts: Sequence[bytes]) -> bytes:
    """Return the bytes to sign: the purpose, then each of ``parts``, preceded by its length.

    The signed bytes include the purpose. A signature for one purpose is therefore invalid for any
    other purpose.
    """
    framed = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return f"vfl/{purpose}/v1\n".encode() + framed


@dataclass(frozen=True, slots=True)
class Identity:
    """This party's own certificate and private key."""

    name: str
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def der(self) -> bytes:
        """The certificate in DER, the encoding that messages use."""
        return self.certificate.public_bytes(serialization.Encoding.DER)

    def sign(self, purpose: str, *parts: bytes) -> bytes:
        """Return the ECDSA signature of ``signed_bytes(purpose, parts)``."""
        return self.key.sign(signed_bytes(purpose, parts), ec.ECDSA(hashes.SHA256()))


def verify_signature(
    trust: Trust,
    der: bytes,
    signature: bytes,
    now: datetime,
    purpose: str,
    *parts: bytes,
    past: bool = False,
) -> str:
    """Verify the signature of ``purpose`` and ``parts``; return the party in certificate ``der``.

    With ``past``, the signature was made at ``now``, maybe with a key that the party had before.

    Raises:
        IdentityError: the certificate breaks a rule, or the signature was not made with the
            key of the certificate.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise IdentityError("a message has no valid DER certificate") from error
    name = (trust.check_past if past else trust.check)(certificate, now)
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):  # of a former key: check() allows P-256 only
        raise IdentityError(f"the key of {name} is not one of an elliptic curve")
    try:
        key.verify(signature, signed_bytes(purpose, parts), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise IdentityError(f"the signature of {name} for {purpose!r} is invalid") from error
    return name
