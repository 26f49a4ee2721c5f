"""Why a connection failed: one TLS handshake by hand, since gRPC says UNAVAILABLE to everything."""

import re
import socket
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from cryptography import x509

from protocol.errors import IdentityError, LineBroken, ProtocolError
from protocol.keyring import Keyring

_PATIENCE = 5.0  # seconds


def diagnose(address: str, keyring: Keyring, hub: str) -> ProtocolError:
    """What is wrong with the way to ``address``, in words; certificates are never worth a retry."""
    try:
        look(address, keyring, hub)
    except ProtocolError as error:
        return error
    return LineBroken(f"closed the connection at {address}", "it listens again; restarting?")


def look(address: str, keyring: Keyring, hub: str) -> x509.Certificate:
    """The certificate of the hub that greets us at ``address``; it does not take our seat there.

    Raises:
        LineBroken: there is no way to a hub.
        IdentityError: one of the two certificates will not do.
    """
    try:
        with _connect(address) as plain:
            return _handshake(plain, address, keyring, hub)
    except (ConnectionRefusedError, FileNotFoundError):
        raise LineBroken(
            f"nobody listens at {address}", f"start {hub} first, or check the port"
        ) from None
    except socket.gaierror:
        raise LineBroken(f"the name in {address} is unknown", "check the hub's host name") from None
    except TimeoutError:
        raise LineBroken(f"{address} does not answer", "is a firewall between?") from None
    except OSError as error:
        raise LineBroken(f"cannot reach {address}: {error.strerror or error}") from error


def _connect(address: str) -> socket.socket:
    if address.startswith("unix:"):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(_PATIENCE)
        try:
            plain.connect(address.removeprefix("unix:"))
        except OSError:
            plain.close()
            raise
        return plain
    host, _, port = address.rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), _PATIENCE)


def _handshake(plain: socket.socket, address: str, keyring: Keyring, hub: str) -> x509.Certificate:
    plain.settimeout(_PATIENCE)
    try:
        with _context(keyring).wrap_socket(plain, server_hostname=hub) as secured:
            _await_greeting(secured, address, keyring)
            leaf = secured.getpeercert(binary_form=True)
            return x509.load_der_x509_certificate(leaf or b"")
    except ssl.SSLCertVerificationError as error:
        raise IdentityError(
            f"the certificate at {address} is not that of {hub}: {error.verify_message}",
            "is it the right address, and do both sides hold the same ca.pem?",
        ) from error
    except (ssl.SSLEOFError, ConnectionError):
        raise LineBroken(f"{address} hung up", f"is {hub} ending, or is a proxy between?") from None
    except ssl.SSLError as error:
        raise _alert(error, address) from error
    except TimeoutError:
        raise LineBroken(f"{address} answers, but says nothing", "is it the hub's port?") from None


def _await_greeting(secured: ssl.SSLSocket, address: str, keyring: Keyring) -> None:
    """Under TLS 1.3 the hub judges our certificate last: it greets us, or hangs up unexplained."""
    try:
        greeted = bool(secured.recv(1))
    except ConnectionError:
        greeted = False
    if not greeted:
        end = keyring.identity.certificate.not_valid_after_utc
        raise IdentityError(
            f"the hub at {address} hung up when it saw our certificate",
            f"ours ends {end:%Y-%m-%d %H:%M} UTC; renew it, or compare the ca.pem of both sides",
        )


def _alert(error: ssl.SSLError, address: str) -> ProtocolError:
    reason = error.reason or ""
    if alert := re.search(r"ALERT_(.+)", reason):
        word = alert[1].lower().replace("_", " ")
        return IdentityError(
            f"the hub at {address} refused our certificate: {word}", "vfl certs, or renew it"
        )
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return IdentityError(f"{address} does not speak TLS", "is it the hub's port?")
    return IdentityError(f"TLS with {address} failed: {reason.lower().replace('_', ' ')}")


def _context(keyring: Keyring) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(cadata=keyring.authority_pem.decode())
    with TemporaryDirectory() as folder:  # 0700; the ssl module takes keys from files only
        chain = Path(folder) / "chain.pem"
        chain.touch(0o600)
        chain.write_bytes(keyring.key_pem + keyring.certificate_pem)
        context.load_cert_chain(chain)
    return context
