"""Connections that the hub refuses, and what the refused side learns."""

import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import Queue
from threading import Thread
from time import monotonic
from typing import Any

import pytest
from command_trial import ROOT, edited_config, make_trial
from forge import Authority, Leaf, authority, write
from handshake_parties import party
from message_examples import end_of

from parties.vertical.setup import admit_passive_party
from protocol.credentials import fingerprint
from protocol.deny_list import DenyList
from protocol.errors import IdentityError, PeerSilent
from protocol.grpc_line import LineServer, dial_hub
from protocol.keyring import issue_certificate, make_authority, make_trust, read_keyring
from tests.conftest import HUB, SPOKE, listening


@pytest.fixture(scope="session")
def root(keys: Path) -> Authority:
    return authority(keys)


@contextmanager
def hub(keys: Path, **trusting: Any) -> Iterator[tuple[LineServer, str]]:
    """The bank's port, with the trust that a test wants."""
    bank = party(keys, HUB, [])
    bank = replace(bank, trust=replace(bank.trust, **trusting))
    with LineServer(
        "127.0.0.1:0", bank.keyring, lambda leaf: admit_passive_party(bank, leaf), 2
    ) as server:
        yield server, f"127.0.0.1:{server.port}"


def connect_and_wait(
    server: LineServer, address: str, folder: Path, name: str = SPOKE
) -> tuple[str, str]:
    """What the hub's log and the refused visitor learn."""
    line = dial_hub(address, read_keyring(folder, name), HUB)
    with pytest.raises(IdentityError) as ours:
        server.accept(5)
    theirs = end_of(line)
    line.cut()
    assert isinstance(theirs, IdentityError)
    return str(ours.value), str(theirs)


def refused_clients(keys: Path, folder: Path, root: Authority) -> Iterator[tuple[Path, str, str]]:
    """Yield twelve certified clients that the hub refuses: folder, name, reason."""
    uris = [f"spiffe://trial/party/{name}" for name in (SPOKE, HUB)]
    leaves = [
        (Leaf(uris=[]), "0 URI names"),
        (Leaf(uris=uris), "2 URI names"),
        (
            Leaf(uris=["spiffe://other/party/shop"]),
            "the URI in a party's certificate belongs to no",
        ),
        (Leaf(uris=["https://trial/party/shop"]), "the URI in a party's certificate belongs to no"),
        (
            Leaf(uris=["spiffe://trial/party/shop/more"]),
            "the URI in a party's certificate belongs to no",
        ),
        (Leaf(dns=[]), "has no DNS name"),
        (Leaf(ca=True, signs_certificates=True), "an authority's certificate"),
        (Leaf(signs_certificates=True), "an authority's certificate"),
        (Leaf(usage_critical=False), "is not critical, or does not allow"),
        (Leaf(name=HUB), "bank is not a passive party"),
    ]
    for number, (leaf, reason) in enumerate(leaves):
        yield write(folder / str(number), keys, SPOKE, leaf.issue(root)), SPOKE, reason
    yield keys, "stranger", "stranger is not a passive party"
    yield write(folder / "pinned", keys, SPOKE, Leaf().issue(root)), SPOKE, "expected sha256:"


def test_twelve_refused_clients_receive_the_same_error(
    keys: Path, tmp_path: Path, root: Authority
) -> None:
    pins = {SPOKE: [fingerprint(read_keyring(keys, SPOKE).identity.certificate)]}
    messages = []
    with hub(keys, pins=pins) as (server, address):
        for folder, name, reason in refused_clients(keys, tmp_path, root):
            started = monotonic()
            ours, theirs = connect_and_wait(server, address, folder, name)
            assert monotonic() - started > 0.05  # never at once
            assert reason in ours
            ticket = re.search(r"\(ticket ([0-9a-f]{8})\)", theirs)
            assert ticket is not None
            assert ticket[0] in ours
            messages.append(theirs.replace(ticket[1], ""))
    assert len(messages) == 12
    assert set(messages) == {"the hub refused this party's certificate (ticket )"}


def test_hub_of_another_authority_is_refused_without_retry(keys: Path, tmp_path: Path) -> None:
    make_authority(tmp_path / "other", "trial")  # the same names, another key
    issue_certificate(tmp_path / "other", "trial", HUB)
    with listening(read_keyring(tmp_path / "other", HUB)) as (_, address):
        result = make_trial(tmp_path, keys).start("passive", SPOKE, "--hub", address)
    result.expect(5, f"the certificate at {address} is not valid for bank", "the same ca.pem")


def test_other_party_in_place_of_the_hub_is_refused(keys: Path, tmp_path: Path) -> None:
    with listening(read_keyring(keys, "hospital")) as (_, address):
        result = make_trial(tmp_path, keys).start("passive", SPOKE, "--hub", address)
    result.expect(5, "is not valid for bank: Hostname mismatch", "hint: check the address")


def test_client_of_another_authority_is_refused_before_its_name_is_read(
    keys: Path, tmp_path: Path
) -> None:
    make_authority(tmp_path / "other", "trial")
    issue_certificate(tmp_path / "other", "trial", SPOKE)
    (tmp_path / "other" / "ca.pem").unlink()
    (tmp_path / "other" / "ca.pem").write_bytes((keys / "ca.pem").read_bytes())
    with hub(keys) as (server, address):
        line = dial_hub(address, read_keyring(tmp_path / "other", SPOKE), HUB)
        assert "closed the connection after receiving this party's certificate" in str(end_of(line))
        line.cut()
        with pytest.raises(PeerSilent):
            server.accept(0)


def test_key_denied_during_a_run_is_refused_afterwards(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "denied.txt"
    path.write_text("# no key yet\n")
    pin = fingerprint(read_keyring(keys, SPOKE).identity.certificate)
    with hub(keys, denied_file=DenyList(path)) as (server, address):
        line = dial_hub(address, read_keyring(keys, SPOKE), HUB)
        assert server.accept(5).peer == SPOKE
        line.cut()
        fresh = path.with_suffix(".new")
        fresh.write_text(f"{pin}\n")
        fresh.replace(path)
        message = ""
        while "is denied" not in message:  # the hub may still hold the first line for a moment
            message, _ = connect_and_wait(server, address, keys)
        path.unlink()
        assert "cannot read the deny list" in connect_and_wait(server, address, keys)[0]


def test_denied_keys_are_read_completely_during_replacement(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "denied.txt"
    one, two = ("sha256:" + digit * 64 for digit in "12")
    path.write_text(f"{one}\n")
    trusted = make_trust(read_keyring(keys, HUB), "trial", {}, [two], path)
    assert trusted.denied_now() == {one, two}
    path.write_text("")
    assert trusted.denied_now() == {two}


@pytest.mark.slow
def test_old_tls_and_plaintext_are_refused_and_the_hub_continues(
    keys: Path, tmp_path: Path, port: int
) -> None:
    """The output of a real process is one warning, about the party that it could name."""
    trial = make_trial(tmp_path, keys)
    trial.write(edited_config("join_seconds = 0.5", "join_seconds = 40.0"))
    words = trial.words("active", HUB, "--hub", f"127.0.0.1:{port}", "--format", "json")
    running = subprocess.Popen(
        [sys.executable, "-m", "parties", *words], cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    lines: Queue[str] = Queue()
    reader = Thread(target=lambda: [lines.put(line) for line in running.stdout or ()], daemon=True)
    reader.start()
    try:
        result = read_until(lines, "waiting for the others")
        for attempt in (no_certificate, tls_1_2, plaintext, web_browser, noise):
            attempt(port, keys)
            assert running.poll() is None
        line = dial_hub(f"127.0.0.1:{port}", read_keyring(keys, "stranger"), HUB)
        assert isinstance(end_of(line), IdentityError)
        line.cut()
        result += read_until(lines, "refused a connection")
        assert running.poll() is None
    finally:
        running.terminate()
        _, errors = running.communicate(timeout=20)
    assert errors == ""
    warnings = [line for line in result if '"warning"' in line and "pins no keys" not in line]
    assert len(warnings) == 1
    assert "stranger is not a passive party" in warnings[0]


def read_until(lines: "Queue[str]", words: str) -> list[str]:
    result = [lines.get(timeout=60)]
    while words not in result[-1]:
        result.append(lines.get(timeout=60))
    return result


def context(keys: Path, *, certificate: bool = True) -> ssl.SSLContext:
    shaking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    shaking.load_verify_locations(keys / "ca.pem")
    shaking.set_alpn_protocols(["h2"])
    if certificate:
        shaking.load_cert_chain(keys / f"{SPOKE}.pem", keys / f"{SPOKE}.key")
    return shaking


def tls_handshake(port: int, shaking: ssl.SSLContext) -> None:
    greeted = b""
    with (
        suppress(ssl.SSLError, ConnectionError),
        socket.create_connection(("127.0.0.1", port), 5) as plain,
        shaking.wrap_socket(plain, server_hostname=HUB) as secured,
    ):
        greeted = secured.recv(1)
    assert greeted == b""


def no_certificate(port: int, keys: Path) -> None:
    tls_handshake(port, context(keys, certificate=False))


def tls_1_2(port: int, keys: Path) -> None:
    old = context(keys)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    tls_handshake(port, old)


def plaintext(port: int, keys: Path) -> None:
    send_plaintext(port, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))


def web_browser(port: int, keys: Path) -> None:
    send_plaintext(port, b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n")


def noise(port: int, keys: Path) -> None:
    send_plaintext(port, os.urandom(2000))


def send_plaintext(port: int, content: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), 5) as plain:
        plain.sendall(content)
        with suppress(ConnectionError):
            assert b"200" not in plain.recv(1000)
