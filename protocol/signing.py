"""Certificates for keys that stay at home: a party's request, and the authority's answer.

The key is made where it will be used. What travels is a request (PKCS#10) with the public key, and
the certificate that comes back; neither is secret. That nobody changed the request on its way is
shown by the key's fingerprint, which both sides see and compare by another channel.
"""

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from protocol.credentials import fingerprint, is_party_key, party_uri
from protocol.errors import IdentityError
from protocol.keyring import PEM, certify, common_name, new_key, private_pem, read_file, write_new


def request_certificate(folder: Path, federation: str, name: str) -> str:
    """Write ``<name>.csr``, and ``<name>.key`` unless it is there already; returns the key's pin.

    A key that is there is kept, so that a renewed certificate has the pin of the old one.

    Raises:
        IdentityError: the key that is there cannot be used.
    """
    path = folder / f"{name}.key"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        write_new(path, private_pem(new_key()), 0o600)
    key = _read_key(path)
    wish = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(common_name(name))
        .add_extension(_names(federation, name), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / f"{name}.csr").write_bytes(wish.public_bytes(PEM))
    return fingerprint(wish)


def sign_request(
    authority: Path, federation: str, name: str, request: Path, days: int = 365
) -> bytes:
    """The certificate (PEM) of party ``name`` for the key in ``request``.

    Only the key and the name are taken from the request; all else is as ``issue`` has it.

    Raises:
        IdentityError: the request is another party's, its key too weak, or it is not signed by it.
    """
    wish = _read_request(request)
    named = _named(wish, request)
    if named != party_uri(federation, name):
        raise IdentityError(
            f"{request} asks for {named!r:.200}, not for {party_uri(federation, name)!r}",
            f"vfl certs request at {name}, with the agreement of {federation!r}",
        )
    key = wish.public_key()
    if not is_party_key(key):
        raise IdentityError(
            f"the key in {request} is not P-256", "vfl certs request makes the right kind"
        )
    if not wish.is_signature_valid:
        raise IdentityError(f"{request} is not signed by its own key", "ask for it once more")
    return certify(authority, federation, name, key, days=days).public_bytes(PEM)


def pin_of(path: Path) -> str:
    """The pin of the key in a certificate or request.

    Raises:
        IdentityError: the file is neither.
    """
    content = read_file(path)
    try:
        if b"CERTIFICATE REQUEST-----" in content:
            return fingerprint(x509.load_pem_x509_csr(content))
        return fingerprint(x509.load_pem_x509_certificate(content))
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise IdentityError(
            f"{path} is neither a certificate nor a request", "name a .pem or .csr file"
        ) from error


def grouped(pin: str) -> Iterator[str]:
    """The digits of a pin in lines of four groups of four, as one reads them out."""
    digits = pin.removeprefix("sha256:")
    groups = [digits[at : at + 4] for at in range(0, len(digits), 4)]
    for at in range(0, len(groups), 4):
        yield " ".join(groups[at : at + 4])


def _names(federation: str, name: str) -> x509.SubjectAlternativeName:
    uri = x509.UniformResourceIdentifier(party_uri(federation, name))
    return x509.SubjectAlternativeName([uri, x509.DNSName(name)])


def _named(wish: x509.CertificateSigningRequest, path: Path) -> str:
    try:
        names = wish.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        uris = []
    if len(uris) != 1:
        raise IdentityError(
            f"{path} asks for {len(uris)} URI names; a party has exactly one",
            "vfl certs request writes it",
        )
    return uris[0]


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(read_file(path), password=None)
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise IdentityError(f"{path} is no key without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not is_party_key(key.public_key()):
        raise IdentityError(f"{path} is not a P-256 key", "move it away, and a new one is made")
    return key


def _read_request(path: Path) -> x509.CertificateSigningRequest:
    try:
        return x509.load_pem_x509_csr(read_file(path))
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise IdentityError(
            f"{path} is no certificate request", "name the .csr file that the party sent"
        ) from error
