"""Lines over gRPC with mutual TLS: which connections are accepted, and the errors of the others."""

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue

import grpc
import pytest
from forge import Leaf, authority, write
from message_examples import end_of

from protocol.errors import IdentityError, LineBroken, PeerSilent
from protocol.frames import MAX_FRAME
from protocol.grpc_line import DEFAULT_TIMEOUTS, LineServer, grpc_options
from protocol.keyring import read_keyring
from tests.conftest import HUB, SPOKE, Dial, grpc_lines, listening

ROOT = Path(__file__).parents[2]
Port = tuple[LineServer, str]


@pytest.fixture
def hub(keys: Path) -> Iterator[Port]:
    with listening(read_keyring(keys, HUB)) as server:
        yield server


def check_still_open(server: LineServer, address: str, dialled: Dial) -> None:
    """Check that the shop can still connect."""
    line = dialled(address, SPOKE)
    hub = server.accept(5)
    line.send(b"hello", 5)
    assert (hub.peer, hub.receive(5)) == (SPOKE, b"hello")


# --- connections --------------------------------------------------------------------------------


def test_party_outside_the_agreement_is_refused_with_a_ticket(hub: Port, dialled: Dial) -> None:
    server, address = hub
    stranger = dialled(address, "stranger")
    with pytest.raises(IdentityError, match="stranger is not a passive party") as ours:
        server.accept(5)
    theirs = end_of(stranger)
    assert isinstance(theirs, IdentityError)
    ticket = str(ours.value).rpartition("ticket ")[2].rstrip(")")
    assert str(theirs) == f"the hub refused this party's certificate (ticket {ticket})"
    assert len(ticket) == 8
    check_still_open(server, address, dialled)


@pytest.mark.parametrize(
    ("leaf", "message"),
    [
        (Leaf(uris=[]), "has 0 URI names"),
        (Leaf(uris=["spiffe://trial/party/shop", "spiffe://trial/party/bank"]), "has 2 URI names"),
        (Leaf(uris=["spiffe://other/party/shop"]), "federation 'trial'"),
        (Leaf(dns=[]), "has no DNS name"),
        (Leaf(ca=True, signs_certificates=True), "an authority's certificate"),
    ],
    ids=["no URI", "two URIs", "other federation", "no DNS name", "authority as leaf"],
)
def test_certificate_that_only_grpc_accepts_is_refused(
    hub: Port, dialled: Dial, keys: Path, tmp_path: Path, leaf: Leaf, message: str
) -> None:
    server, address = hub
    folder = write(tmp_path / "certs", keys, SPOKE, leaf.issue(authority(keys)))
    line = dialled(address, SPOKE, folder)
    with pytest.raises(IdentityError, match=message):
        server.accept(5)
    assert "ticket" in str(end_of(line))
    check_still_open(server, address, dialled)


def test_refused_parties_receive_the_same_error(
    hub: Port, dialled: Dial, keys: Path, tmp_path: Path
) -> None:
    """Except for the ticket: the spoke does not learn which rule it broke."""
    server, address = hub
    folder = write(tmp_path / "certs", keys, SPOKE, Leaf(uris=[]).issue(authority(keys)))
    errors = set()
    for line in (dialled(address, "stranger"), dialled(address, SPOKE, folder)):
        with pytest.raises(IdentityError):
            server.accept(5)
        errors.add(str(end_of(line)).partition("(")[0])
    assert errors == {"the hub refused this party's certificate "}


def test_second_connection_of_one_party_waits_for_the_earlier_one_to_end(
    hub: Port, dialled: Dial
) -> None:
    server, address = hub
    first = dialled(address, SPOKE)
    line = server.accept(5)
    for _ in range(3):
        error = end_of(dialled(address, SPOKE))
        assert isinstance(error, LineBroken)  # so that the handshake tries again
        assert str(error) == "an earlier connection of this party to the hub is still open"
    with pytest.raises(IdentityError, match="shop opened a second connection"):
        server.accept(5)
    first.send(b"still here", 5)
    assert line.receive(5) == b"still here"
    dialled(address, "hospital")
    assert server.accept(5).peer == "hospital"  # the second connection was reported once


def test_party_whose_line_has_ended_may_connect_again(hub: Port, dialled: Dial) -> None:
    server, address = hub
    dialled(address, SPOKE)
    line = server.accept(5)
    line.cut()
    assert isinstance(end_of(line), LineBroken)
    again = None
    while again is None:  # the hub may see the new connection before the end of the old one
        dialled(address, SPOKE)
        with suppress(IdentityError):
            again = server.accept(5)
    assert again.peer == SPOKE


LAST_WORDS = """
import os, sys
from pathlib import Path
from protocol.grpc_line import dial_hub
from protocol.keyring import read_keyring

address, keys, spoke, hub = sys.argv[1:]
line = dial_hub(address, read_keyring(Path(keys), spoke), hub)
line.send(b"hello", 5)
line.receive(30)
for number in range(8):
    line.send(b"%d" % number, 5)
line.close()
os._exit(0)
"""


@pytest.mark.slow
def test_frames_of_a_process_that_closes_and_exits_arrive(hub: Port, keys: Path) -> None:
    """The reason of an error is the last frame of a process."""
    server, address = hub
    command = [sys.executable, "-c", LAST_WORDS, address, str(keys), SPOKE, HUB]
    with subprocess.Popen(command, cwd=ROOT):
        line = server.accept(30)
        assert line.receive(30) == b"hello"
        line.send(b"go on", 5)
        assert [line.receive(30) for _ in range(8)] == [b"%d" % number for number in range(8)]


def context(keys: Path, *, certificate: bool = True) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(keys / "ca.pem")
    made.set_alpn_protocols(["h2"])
    if certificate:
        made.load_cert_chain(keys / f"{SPOKE}.pem", keys / f"{SPOKE}.key")
    return made


def tls_version(address: str, with_: ssl.SSLContext) -> str | None:
    """Return the TLS version of a handshake, after the hub's first byte."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 5) as plain,
        with_.wrap_socket(plain, server_hostname=HUB) as secured,
    ):
        if not secured.recv(1):
            raise ConnectionResetError
        return secured.version()


def test_tls_1_3_is_used(hub: Port, keys: Path) -> None:
    assert tls_version(hub[1], context(keys)) == "TLSv1.3"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_1"])
def test_older_tls_versions_are_refused(hub: Port, dialled: Dial, keys: Path, version: str) -> None:
    made = context(keys)
    made.minimum_version = ssl.TLSVersion.TLSv1
    made.maximum_version = ssl.TLSVersion[version]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        tls_version(hub[1], made)
    check_still_open(*hub, dialled)


def test_spoke_without_certificate_is_refused(hub: Port, dialled: Dial, keys: Path) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        tls_version(hub[1], context(keys, certificate=False))
    check_still_open(*hub, dialled)


def test_connection_without_tls_is_refused(hub: Port, dialled: Dial) -> None:
    server, address = hub
    with grpc.insecure_channel(address) as channel:
        frames: Queue[bytes | None] = Queue()
        stream = channel.stream_stream("/vfl.Line/Talk")(iter(frames.get, None), timeout=5)
        with pytest.raises(grpc.RpcError) as error:
            next(stream)
        frames.put(None)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(PeerSilent, match="no party connected"):
        server.accept(0)
    check_still_open(server, address, dialled)


def test_web_browser_at_the_port_is_refused(hub: Port, dialled: Dial) -> None:
    host, _, port = hub[1].rpartition(":")
    with socket.create_connection((host, int(port)), 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n")
        plain.settimeout(5)
        assert b"HTTP/1.1 200" not in plain.recv(1000)
    check_still_open(*hub, dialled)


def test_unknown_method_is_refused(hub: Port, dialled: Dial, keys: Path) -> None:
    keyring = read_keyring(keys, SPOKE)
    credentials = grpc.ssl_channel_credentials(
        keyring.authority_pem, keyring.key_pem, keyring.certificate_pem
    )
    override = [("grpc.ssl_target_name_override", HUB)]
    with grpc.secure_channel(hub[1], credentials, override) as channel:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary("/vfl.Line/Shell")(b"", timeout=5)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    check_still_open(*hub, dialled)


def test_lost_hub_is_a_broken_line(keys: Path, tmp_path: Path) -> None:
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as lines:
        lines.hub.cut()
        assert isinstance(end_of(lines.spoke), LineBroken)


# --- options ------------------------------------------------------------------------------------


def test_grpc_never_retries_and_is_bounded() -> None:
    options = dict(grpc_options(DEFAULT_TIMEOUTS))
    assert len(options) == len(grpc_options(DEFAULT_TIMEOUTS))
    assert options["grpc.enable_retries"] == 0
    assert options["grpc.max_send_message_length"] == MAX_FRAME
    assert options["grpc.max_receive_message_length"] == 2 * MAX_FRAME
    assert options["grpc.max_metadata_size"] == options["grpc.absolute_max_metadata_size"] == 8192
    assert options["grpc.so_reuseport"] == 0
    # the server closes a connection that pings more often than this
    assert (
        options["grpc.http2.min_ping_interval_without_data_ms"] < options["grpc.keepalive_time_ms"]
    )


def test_port_in_use_is_refused_by_its_address(hub: Port, keys: Path) -> None:
    with pytest.raises(LineBroken, match=f"cannot listen on {hub[1]}"):
        LineServer(hub[1], read_keyring(keys, HUB), lambda leaf: "", 1)


def test_accept_times_out(hub: Port) -> None:
    started = datetime.now(UTC)
    with pytest.raises(PeerSilent, match=r"no party connected for 0\.05 s"):
        hub[0].accept(0.05)
    assert datetime.now(UTC) - started < timedelta(seconds=1)
