"""Find the reason why a connection failed, by a second attempt at the TLS handshake.

gRPC reports every failed connection as UNAVAILABLE, without a reason.
"""

import re
import socket
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from protocol.errors import IdentityError, LineBroken, ProtocolError
from protocol.keyring import Keyring

_TIMEOUT = 5.0  # seconds


def diagnose_connection(address: str, keyring: Keyring, hub: str) -> ProtocolError:
    """Return the error that explains why the connection to ``address`` failed.

    The error is an ``IdentityError`` if a certificate is at fault, and ``LineBroken`` otherwise.
    """
    try:
        fetch_hub_certificate(address, keyring, hub)
    except ProtocolError as error:
        return error
    return LineBroken(
        f"closed the connection at {address}",
        "the hub accepts connections again; it was probably restarted",
    )


def fetch_hub_certificate(address: str, keyring: Keyring, hub: str) -> x509.Certificate:
    """Return the certificate of the hub at ``address``, without connecting as a spoke.

    Raises:
        LineBroken: no hub can be reached.
        IdentityError: one side does not accept the other side's certificate.
    """
    try:
        with _connect(address) as plain:
            return _handshake(plain, address, keyring, hub)
    except (ConnectionRefusedError, FileNotFoundError):
        raise LineBroken(
            f"no process listens at {address}", f"start {hub}, or check the port"
        ) from None
    except socket.gaierror:
        raise LineBroken(
            f"the host name in {address} cannot be resolved", "check the hub's host name"
        ) from None
    except TimeoutError:
        raise LineBroken(
            f"{address} does not answer", "check whether a firewall blocks the connection"
        ) from None
    except OSError as error:
        raise LineBroken(f"cannot reach {address}: {error.strerror or error}") from error


def _connect(address: str) -> socket.socket:
    if address.startswith("unix:"):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(_TIMEOUT)
        try:
            plain.connect(address.removeprefix("unix:"))
        except OSError:
            plain.close()
            raise
        return plain
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT)


def _handshake(plain: socket.socket, address: str, keyring: Keyring, hub: str) -> x509.Certificate:
    plain.settimeout(_TIMEOUT)
    try:
        with _context(keyring).wrap_socket(plain, server_hostname=hub) as secured:
            _await_first_byte(secured, address, keyring)
            leaf = secured.getpeercert(binary_form=True)
            return x509.load_der_x509_certificate(leaf or b"")
    except ssl.SSLCertVerificationError as error:
        raise IdentityError(
            f"the certificate at {address} is not valid for {hub}: {error.verify_message}",
            "check the address, and that both sides have the same ca.pem",
        ) from error
    except (ssl.SSLEOFError, ConnectionError):
        raise LineBroken(
            f"{address} closed the connection during the TLS handshake",
            f"check whether {hub} is shutting down, or whether a proxy interferes",
        ) from None
    except ssl.SSLError as error:
        raise _alert(error, address) from error
    except TimeoutError:
        raise LineBroken(
            f"{address} accepts connections but sends nothing", "check that this is the hub's port"
        ) from None


def _await_first_byte(secured: ssl.SSLSocket, address: str, keyring: Keyring) -> None:
    """Wait for the hub's first byte.

    Under TLS 1.3 the hub checks the spoke's certificate last. It sends its first HTTP/2 frame, or
    closes the connection without a reason.
    """
    try:
        accepted = bool(secured.recv(1))
    except ConnectionError:
        accepted = False
    if not accepted:
        end = keyring.identity.certificate.not_valid_after_utc
        raise IdentityError(
            f"the hub at {address} closed the connection after receiving this party's certificate",
            f"the certificate is valid until {end:%Y-%m-%d %H:%M} UTC; renew it, or compare the "
            "ca.pem of both sides",
        )


def _alert(error: ssl.SSLError, address: str) -> ProtocolError:
    reason = error.reason or ""
    if alert := re.search(r"ALERT_(.+)", reason):
        word = alert[1].lower().replace("_", " ")
        return IdentityError(
            f"the hub at {address} refused this party's certificate: {word}",
            "check the certificate with vfl certs, or renew it",
        )
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return IdentityError(f"{address} does not use TLS", "check that this is the hub's port")
    return IdentityError(f"TLS with {address} failed: {reason.lower().replace('_', ' ')}")


def _context(keyring: Keyring) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(cadata=keyring.authority_pem.decode())
    with TemporaryDirectory() as folder:  # mode 0700; the ssl module reads keys from files only
        chain = Path(folder) / "chain.pem"
        chain.touch(0o600)
        chain.write_bytes(keyring.key_pem + keyring.certificate_pem)
        context.load_cert_chain(chain)
    return context
