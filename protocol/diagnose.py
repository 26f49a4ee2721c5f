"""Why a connection failed: one TLS handshake by hand, since gRPC says UNAVAILABLE to everything."""

import re
import socket
import ssl
from pathlib import Path
from tempfile import TemporaryDirectory

from protocol.errors import IdentityError, LineBroken, ProtocolError
from protocol.keyring import Keyring

_PATIENCE = 5.0  # seconds


def diagnose(address: str, keyring: Keyring, hub: str) -> ProtocolError:
    """What is wrong with the way to ``address``, in words; certificates are never worth a retry."""
    try:
        with _connect(address) as plain:
            return _handshake(plain, address, keyring, hub)
    except (ConnectionRefusedError, FileNotFoundError):
        return LineBroken(f"nobody listens at {address}", f"start {hub} first, or check the port")
    except socket.gaierror:
        return LineBroken(f"the name in {address} is unknown", "check the hub's host name")
    except TimeoutError:
        return LineBroken(f"{address} does not answer", "is a firewall between?")
    except OSError as error:
        return LineBroken(f"cannot reach {address}: {error.strerror or error}")


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


def _handshake(plain: socket.socket, address: str, keyring: Keyring, hub: str) -> ProtocolError:
    plain.settimeout(_PATIENCE)
    try:
        with _context(keyring).wrap_socket(plain, server_hostname=hub) as secured:
            return _verdict(secured, address, keyring)
    except ssl.SSLCertVerificationError as error:
        return IdentityError(
            f"the certificate at {address} is not that of {hub}: {error.verify_message}",
            "is it the right address, and do both sides hold the same ca.pem?",
        )
    except (ssl.SSLEOFError, ConnectionError):
        return LineBroken(f"{address} hung up", f"is {hub} ending, or is a proxy between?")
    except ssl.SSLError as error:
        return _alert(error, address)
    except TimeoutError:
        return LineBroken(f"{address} answers, but says nothing", "is it the hub's port?")


def _verdict(secured: ssl.SSLSocket, address: str, keyring: Keyring) -> ProtocolError:
    """Under TLS 1.3 the hub judges our certificate last: it greets us, or hangs up unexplained."""
    try:
        greeted = bool(secured.recv(1))
    except ConnectionError:
        greeted = False
    if greeted:
        return LineBroken(f"closed the connection at {address}", "it listens again; restarting?")
    end = keyring.identity.certificate.not_valid_after_utc
    return IdentityError(
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
