"""Checks of the network: the hub's port, and the connection from another party to the hub."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from cryptography import x509

from configs.errors import ConfigError
from parties.doctor.check import ExaminedParty, Finding, fail, fail_with, ok, warning
from parties.session.identity import PartyIdentity, load_identity
from protocol.diagnose import fetch_hub_certificate
from protocol.errors import IdentityError, LineBroken, ProtocolError
from protocol.keyring import Keyring

PATIENCE = 5.0  # seconds for the look-up of the hub's name and for all its addresses together


def check_connection(party: ExaminedParty) -> Iterator[Finding]:
    """Check the connection to the hub and the hub's certificate; the hub skips this check."""
    if party.active or party.address is None:
        return
    try:
        now = datetime.now(UTC)
        identity = load_identity(party.config, party.name, party.certificates, now)
    except IdentityError:
        return  # a finding of the check "certificate"
    hub, address = party.config.agreement.hub, party.address
    try:
        _connect(identity, hub, address)
    except ProtocolError as error:
        yield fail("connection to the hub", error)
    else:
        yield ok(
            "connection to the hub",
            f"{hub} at {address} has the right certificate, and accepts that of {party.name}",
        )


def _connect(identity: PartyIdentity, hub: str, address: str) -> None:
    leaf = _fetch_within_deadline(address, identity.keyring, hub)
    named = identity.trust.check(leaf, datetime.now(UTC))
    if named != hub:
        raise IdentityError(
            f"the certificate at {address} is the certificate of {named}, not of {hub}",
            "check the hub's address",
        )


def _fetch_within_deadline(address: str, keyring: Keyring, hub: str) -> x509.Certificate:
    """Fetch the hub's certificate within ``PATIENCE`` seconds.

    A thread does it, because the look-up of a name has no deadline of its own.
    """
    answers: Queue[x509.Certificate | ProtocolError] = Queue()

    def fetch() -> None:
        try:
            answers.put(fetch_hub_certificate(address, keyring, hub))
        except ProtocolError as error:
            answers.put(error)

    Thread(target=fetch, name="fetch certificate", daemon=True).start()
    try:
        answer = answers.get(timeout=PATIENCE)
    except Empty:
        answer = LineBroken(
            f"{address} does not answer", "check that no firewall blocks the connection"
        )
    if isinstance(answer, ProtocolError):
        raise answer
    return answer


def check_address(party: ExaminedParty) -> Iterator[Finding]:
    """Check that the party settings or --hub give an address to connect to or to listen on."""
    if party.address is None:
        key = "listen" if party.active else "hub"
        hint = f'set {key} = "host:7700" in the party settings, or give --hub'
        yield fail(
            "address", ConfigError(f"the settings of {party.name} lack the key {key!r}", hint)
        )


def check_port(party: ExaminedParty) -> Iterator[Finding]:
    """Check that the hub's port is free and open to other machines; other parties skip it."""
    if not party.active or party.address is None:
        return
    address = party.address
    try:
        _bind(address)
    except OSError as error:
        yield fail_with(
            "port",
            f"cannot listen on {address}: {error.strerror or error}",
            "check that the party is not running already, and that this machine has the address",
        )
        return
    host = address.rpartition(":")[0]
    if address.startswith("unix:") or not _is_loopback(host):
        yield ok("port", f"{address} is free; the firewall must allow connections to it")
    else:
        yield warning(
            "port",
            f"{address} is free, but only this machine can reach it",
            'set listen = "0.0.0.0:7700" to accept connections of other machines',
        )


def _bind(address: str) -> None:
    if address.startswith("unix:"):
        folder = Path(address.removeprefix("unix:")).parent
        if not folder.is_dir():
            raise FileNotFoundError(2, f"the folder {folder} does not exist")
        return
    host, _, port = address.rpartition(":")
    family, kind, number, _, place = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, number) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gRPC does
        probe.bind(place)
        probe.listen(1)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.") or host == "[::1]"
