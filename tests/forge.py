"""Valid and invalid certificates for tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from protocol.credentials import party_uri

NOW = datetime.now(UTC)
Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True)
class Authority:
    """An authority that signs certificates."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def authority(folder: Path) -> Authority:
    """The authority that ``make_authority`` wrote."""
    key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()), key)


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """Content of a certificate; the defaults are valid."""

    name: str = "shop"
    uris: Sequence[str] | None = None  # None: the party's
    dns: Sequence[str] | None = None  # None: the party's name
    start: timedelta = timedelta(minutes=-5)
    end: timedelta = timedelta(days=30)
    ca: bool = False
    signs_certificates: bool = False
    signs: bool = True
    usage_critical: bool = True
    purposes: Sequence[x509.ObjectIdentifier] = (
        ExtendedKeyUsageOID.CLIENT_AUTH,
        ExtendedKeyUsageOID.SERVER_AUTH,
    )
    without: type[x509.ExtensionType] | None = None

    def issue(self, by: Authority, key: Key | None = None) -> tuple[x509.Certificate, Key]:
        """The certificate and its key."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .issuer_name(by.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW + self.start)
            .not_valid_after(NOW + self.end)
        )
        for extension, critical in self._extensions():
            if not isinstance(extension, self.without or ()):
                builder = builder.add_extension(extension, critical)
        return builder.sign(by.key, hashes.SHA256()), key

    def _extensions(self) -> list[tuple[x509.ExtensionType, bool]]:
        uris = [party_uri("trial", self.name)] if self.uris is None else self.uris
        dns = [self.name] if self.dns is None else self.dns
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        usage = x509.KeyUsage(
            digital_signature=self.signs,
            content_commitment=not self.signs,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=self.signs_certificates,
            crl_sign=False,
            encipher_only=False,
            decipher_only=False,
        )
        return [
            (x509.SubjectAlternativeName([*names, *map(x509.DNSName, dns)]), False),
            (x509.BasicConstraints(ca=self.ca, path_length=None), True),
            (usage, self.usage_critical),
            (x509.ExtendedKeyUsage(self.purposes), False),
        ]


def write(folder: Path, trusted: Path, name: str, leaf: tuple[x509.Certificate, Key]) -> Path:
    """A party's three files in ``folder``; the party trusts the authority in ``trusted``."""
    folder.mkdir(exist_ok=True)
    (folder / "ca.pem").write_bytes((trusted / "ca.pem").read_bytes())
    (folder / f"{name}.pem").write_bytes(leaf[0].public_bytes(serialization.Encoding.PEM))
    key = folder / f"{name}.key"
    key.touch(0o600)
    key.write_bytes(
        leaf[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return folder
