"""gRPC with mutual TLS: who may dial, who may be dialled, and what everybody is told."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue

import grpc
import pytest
from forge import Leaf, authority, write
from talk import end_of

from protocol.errors import IdentityError, LineBroken, PeerSilent
from protocol.frames import MAX_FRAME
from protocol.grpc_line import USUAL, Server, options
from protocol.keyring import read_keyring
from tests.conftest import HUB, SPOKE, Dial, grpc_lines, listening

Port = tuple[Server, str]


@pytest.fixture
def hub(keys: Path) -> Iterator[Port]:
    with listening(read_keyring(keys, HUB)) as server:
        yield server


def still_open(server: Server, address: str, dialled: Dial) -> None:
    """The shop may still join."""
    line = dialled(address, SPOKE)
    hub = server.accept(5)
    line.send(b"hello", 5)
    assert (hub.peer, hub.receive(5)) == (SPOKE, b"hello")


# --- who may dial -------------------------------------------------------------------------------


def test_party_outside_the_agreement_is_refused_with_a_ticket(hub: Port, dialled: Dial) -> None:
    server, address = hub
    stranger = dialled(address, "stranger")
    with pytest.raises(IdentityError, match="stranger is no passive party") as ours:
        server.accept(5)
    theirs = end_of(stranger)
    assert isinstance(theirs, IdentityError)
    ticket = str(ours.value).rpartition("ticket ")[2].rstrip(")")
    assert str(theirs) == f"the hub refused our certificate (ticket {ticket})"
    assert len(ticket) == 8
    still_open(server, address, dialled)


@pytest.mark.parametrize(
    ("leaf", "told"),
    [
        (Leaf(uris=[]), "with 0 URI names"),
        (Leaf(uris=["spiffe://trial/party/shop", "spiffe://trial/party/bank"]), "with 2 URI names"),
        (Leaf(uris=["spiffe://other/party/shop"]), "is no party of 'trial'"),
        (Leaf(dns=[]), "without a DNS name"),
        (Leaf(ca=True, signs_certificates=True), "an authority's certificate"),
    ],
    ids=["no URI", "two URIs", "other federation", "no DNS name", "authority as leaf"],
)
def test_leaf_that_grpc_accepts_and_we_do_not(
    hub: Port, dialled: Dial, keys: Path, tmp_path: Path, leaf: Leaf, told: str
) -> None:
    server, address = hub
    folder = write(tmp_path / "certs", keys, SPOKE, leaf.issue(authority(keys)))
    line = dialled(address, SPOKE, folder)
    with pytest.raises(IdentityError, match=told):
        server.accept(5)
    assert "ticket" in str(end_of(line))
    still_open(server, address, dialled)


def test_refused_parties_are_told_the_same(
    hub: Port, dialled: Dial, keys: Path, tmp_path: Path
) -> None:
    """But for the ticket: which rule was broken is the hub's own affair."""
    server, address = hub
    folder = write(tmp_path / "certs", keys, SPOKE, Leaf(uris=[]).issue(authority(keys)))
    told = set()
    for line in (dialled(address, "stranger"), dialled(address, SPOKE, folder)):
        with pytest.raises(IdentityError):
            server.accept(5)
        told.add(str(end_of(line)).partition("(")[0])
    assert told == {"the hub refused our certificate "}


def test_second_connection_of_one_party_waits_for_the_seat(hub: Port, dialled: Dial) -> None:
    server, address = hub
    first = dialled(address, SPOKE)
    line = server.accept(5)
    for _ in range(3):
        told = end_of(dialled(address, SPOKE))
        assert isinstance(told, LineBroken)  # so that the greeting tries again
        assert str(told) == "the seat is still taken by an earlier connection"
    with pytest.raises(IdentityError, match="shop dials a second time"):
        server.accept(5)
    first.send(b"still here", 5)
    assert line.receive(5) == b"still here"
    dialled(address, "hospital")
    assert server.accept(5).peer == "hospital"  # the second dial was told once


def test_party_whose_line_has_ended_may_dial_again(hub: Port, dialled: Dial) -> None:
    server, address = hub
    dialled(address, SPOKE)
    line = server.accept(5)
    line.cut()
    assert isinstance(end_of(line), LineBroken)
    again = None
    while again is None:  # the hub may hear of the new dial before it has taken down the end
        dialled(address, SPOKE)
        with suppress(IdentityError):
            again = server.accept(5)
    assert again.peer == SPOKE


def context(keys: Path, *, certificate: bool = True) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(keys / "ca.pem")
    made.set_alpn_protocols(["h2"])
    if certificate:
        made.load_cert_chain(keys / f"{SPOKE}.pem", keys / f"{SPOKE}.key")
    return made


def shake(address: str, with_: ssl.SSLContext) -> str | None:
    """The TLS version of a handshake by hand, once the hub has said its first word."""
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 5) as plain,
        with_.wrap_socket(plain, server_hostname=HUB) as secured,
    ):
        if not secured.recv(1):
            raise ConnectionResetError
        return secured.version()


def test_tls_1_3_is_spoken(hub: Port, keys: Path) -> None:
    assert shake(hub[1], context(keys)) == "TLSv1.3"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_1"])
def test_older_tls_is_refused(hub: Port, dialled: Dial, keys: Path, version: str) -> None:
    made = context(keys)
    made.minimum_version = ssl.TLSVersion.TLSv1
    made.maximum_version = ssl.TLSVersion[version]
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake(hub[1], made)
    still_open(*hub, dialled)


def test_dialler_without_certificate_is_refused(hub: Port, dialled: Dial, keys: Path) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        shake(hub[1], context(keys, certificate=False))
    still_open(*hub, dialled)


def test_plain_dialler_is_refused(hub: Port, dialled: Dial) -> None:
    server, address = hub
    with grpc.insecure_channel(address) as channel:
        frames: Queue[bytes | None] = Queue()
        talk = channel.stream_stream("/vfl.Line/Talk")(iter(frames.get, None), timeout=5)
        with pytest.raises(grpc.RpcError) as error:
            next(talk)
        frames.put(None)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    with pytest.raises(PeerSilent, match="nobody dialled"):
        server.accept(0)
    still_open(server, address, dialled)


def test_web_browser_at_the_port_is_refused(hub: Port, dialled: Dial) -> None:
    host, _, port = hub[1].rpartition(":")
    with socket.create_connection((host, int(port)), 5) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n")
        plain.settimeout(5)
        assert b"HTTP/1.1 200" not in plain.recv(1000)
    still_open(*hub, dialled)


def test_unknown_method_is_refused(hub: Port, dialled: Dial, keys: Path) -> None:
    ring = read_keyring(keys, SPOKE)
    credentials = grpc.ssl_channel_credentials(
        ring.authority_pem, ring.key_pem, ring.certificate_pem
    )
    override = [("grpc.ssl_target_name_override", HUB)]
    with grpc.secure_channel(hub[1], credentials, override) as channel:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary("/vfl.Line/Shell")(b"", timeout=5)
        assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED
    still_open(*hub, dialled)


def test_lost_hub_is_a_broken_line(keys: Path, tmp_path: Path) -> None:
    with grpc_lines(keys, f"unix:{tmp_path}/hub") as lines:
        lines.hub.cut()
        assert isinstance(end_of(lines.spoke), LineBroken)


# --- options ------------------------------------------------------------------------------------


def test_grpc_never_retries_and_is_bounded() -> None:
    told = dict(options(USUAL))
    assert len(told) == len(options(USUAL))
    assert told["grpc.enable_retries"] == 0
    assert told["grpc.max_send_message_length"] == MAX_FRAME
    assert told["grpc.max_receive_message_length"] == 2 * MAX_FRAME
    assert told["grpc.max_metadata_size"] == told["grpc.absolute_max_metadata_size"] == 8192
    assert told["grpc.so_reuseport"] == 0
    # a server punishes pings that come more often than it allows
    assert told["grpc.http2.min_ping_interval_without_data_ms"] < told["grpc.keepalive_time_ms"]


def test_port_in_use_is_refused_by_its_address(hub: Port, keys: Path) -> None:
    with pytest.raises(LineBroken, match=f"cannot listen on {hub[1]}"):
        Server(hub[1], read_keyring(keys, HUB), lambda leaf: "", 1)


def test_accept_keeps_its_deadline(hub: Port) -> None:
    started = datetime.now(UTC)
    with pytest.raises(PeerSilent, match=r"nobody dialled for 0\.05 s"):
        hub[0].accept(0.05)
    assert datetime.now(UTC) - started < timedelta(seconds=1)
