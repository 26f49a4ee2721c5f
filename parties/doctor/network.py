"""Can the parties meet: the port that the active one opens, the way there from a passive one."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from cryptography import x509

from configs.errors import ConfigError
from parties.doctor.check import Finding, Looked, fail, ok, trouble, warning
from parties.doctor.identity import trusted
from protocol.diagnose import look
from protocol.errors import IdentityError, LineBroken, ProtocolError
from protocol.keyring import Keyring, read_keyring

PATIENCE = 5.0  # seconds, names and all addresses of the hub together


def check_way(examined: Looked) -> Iterator[Finding]:
    """At a passive party: name, connection, TLS 1.3 with our certificate, the hub's certificate."""
    if examined.active or examined.address is None:
        return
    try:
        keyring = read_keyring(examined.certificates, examined.name)
    except IdentityError:
        return  # said already
    hub, address = examined.config.agreement.hub, examined.address
    try:
        leaf = _within_deadline(address, keyring, hub)
        named = trusted(examined, keyring).check(leaf, datetime.now(UTC))
        if named != hub:
            raise IdentityError(f"{address} is {named}, not {hub}", "check the hub's address")
    except ProtocolError as error:
        yield fail("way to the hub", error)
    else:
        yield ok("way to the hub", f"{hub} at {address} knows us and shows the right certificate")


def _within_deadline(address: str, keyring: Keyring, hub: str) -> x509.Certificate:
    """``look``, but no longer than ``PATIENCE``: looking up a name knows no deadline."""
    answers: Queue[x509.Certificate | ProtocolError] = Queue()

    def ask() -> None:
        try:
            answers.put(look(address, keyring, hub))
        except ProtocolError as error:
            answers.put(error)

    Thread(target=ask, name="look", daemon=True).start()
    try:
        answer = answers.get(timeout=PATIENCE)
    except Empty:
        answer = LineBroken(f"{address} does not answer", "is a firewall between?")
    if isinstance(answer, ProtocolError):
        raise answer
    return answer


def check_address(examined: Looked) -> Iterator[Finding]:
    """Whether the seat says where to dial or listen."""
    if examined.address is None:
        word = "listen" if examined.active else "hub"
        hint = f'{word} = "host:7700" in the seat, or --hub'
        yield fail("address", ConfigError(f"the seat of {examined.name} has no address", hint))


def check_port(examined: Looked) -> Iterator[Finding]:
    """At the active party: its port is free, and others can reach it."""
    if not examined.active or examined.address is None:
        return
    address = examined.address
    try:
        _bind(address)
    except OSError as error:
        yield trouble(
            "port",
            f"cannot listen on {address}: {error.strerror or error}",
            "is this party running already? is the address this machine's?",
        )
        return
    host = address.rpartition(":")[0]
    if address.startswith("unix:") or not _is_loopback(host):
        yield ok("port", f"{address} is free; the firewall must let the others in")
    else:
        yield warning(
            "port",
            f"{address} is free, and reached from this machine only",
            'listen = "0.0.0.0:7700" lets other machines in',
        )


def _bind(address: str) -> None:
    if address.startswith("unix:"):
        folder = Path(address.removeprefix("unix:")).parent
        if not folder.is_dir():
            raise FileNotFoundError(2, f"no folder {folder}")
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
