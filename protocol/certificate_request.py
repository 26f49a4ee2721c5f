"""Certificate requests: the party makes its key, and the authority signs a certificate for it.

The private key never leaves the party. The party sends a request (PKCS#10) with its public key, and
the authority sends back a certificate; neither file is secret. Both sides compare the key's
fingerprint over another channel; if the fingerprints are equal, nobody replaced the request in
transit.
"""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.credentials import fingerprint, is_party_key, party_uri
from protocol.errors import IdentityError
from protocol.keyring import (
    PEM,
    make_party_key,
    private_key_pem,
    read_certificate_file,
    sign_certificate,
    write_new_file,
    x509_name,
)


def request_certificate(folder: Path, federation: str, name: str) -> str:
    """Write ``<name>.csr``, and ``<name>.key`` if it does not exist; return the key's pin.

    An existing key is used again, so that the old and the renewed certificate have the same pin.

    Raises:
        IdentityError: the existing key cannot be used.
    """
    path = folder / f"{name}.key"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        write_new_file(path, private_key_pem(make_party_key()), 0o600)
    key = _read_key(path)
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509_name(name))
        .add_extension(_names(federation, name), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / f"{name}.csr").write_bytes(csr.public_bytes(PEM))
    return fingerprint(csr)


def sign_request(
    authority: Path, federation: str, name: str, request: Path, days: int = 365
) -> bytes:
    """Return the certificate (PEM) of party ``name`` for the key in ``request``.

    Only the key and the name come from the request. All other fields are set by
    ``sign_certificate``.

    Raises:
        IdentityError: the request names another party, its key is not on P-256, or the request is
            not signed by its own key.
    """
    csr = _read_request(request)
    uri = _requested_uri(csr, request)
    if uri != party_uri(federation, name):
        raise IdentityError(
            f"the certificate request {request} requests the name {uri!r:.200}; "
            f"expected {party_uri(federation, name)!r}",
            f"run vfl certs request at {name}, with the agreement of federation {federation!r}",
        )
    key = csr.public_key()
    if not is_party_key(key):
        raise IdentityError(
            f"the key in {request} is not a P-256 key", "make the request with vfl certs request"
        )
    if not csr.is_signature_valid:
        raise IdentityError(
            f"{request} is not signed by the key that it contains",
            f"ask {name} to send the request again",
        )
    return sign_certificate(authority, federation, name, key, days=days).public_bytes(PEM)


def read_pin(path: Path) -> str:
    """Return the pin of the key in a certificate or request file.

    Raises:
        IdentityError: the file is neither a certificate nor a request.
    """
    content = read_certificate_file(path)
    try:
        if b"CERTIFICATE REQUEST-----" in content:
            return fingerprint(x509.load_pem_x509_csr(content))
        return fingerprint(x509.load_pem_x509_certificate(content))
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise IdentityError(
            f"{path} is neither a certificate nor a request", "give a .pem or .csr file"
        ) from error


def format_pin(pin: str) -> Iterator[str]:
    """Yield the digits of a pin as lines of four groups of four digits, to be read aloud."""
    digits = pin.removeprefix("sha256:")
    groups = [digits[at : at + 4] for at in range(0, len(digits), 4)]
    for at in range(0, len(groups), 4):
        yield " ".join(groups[at : at + 4])


def _names(federation: str, name: str) -> x509.SubjectAlternativeName:
    uri = x509.UniformResourceIdentifier(party_uri(federation, name))
    return x509.SubjectAlternativeName([uri, x509.DNSName(name)])


def _requested_uri(csr: x509.CertificateSigningRequest, path: Path) -> str:
    try:
        names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        uris = []
    if len(uris) != 1:
        raise IdentityError(
            f"the certificate request {path} requests {len(uris)} URI names; expected exactly one",
            "make the request with vfl certs request",
        )
    return uris[0]


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(read_certificate_file(path), password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(
            f"{path} is not a private key, or is encrypted with a password",
            "move the file away; vfl certs request then makes a new key",
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not is_party_key(key.public_key()):
        raise IdentityError(
            f"{path} is not a P-256 key",
            "move the file away; vfl certs request then makes a new key",
        )
    return key


def _read_request(path: Path) -> x509.CertificateSigningRequest:
    try:
        return x509.load_pem_x509_csr(read_certificate_file(path))
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise IdentityError(
            f"{path} is not a certificate request", "give the .csr file that the party sent"
        ) from error
