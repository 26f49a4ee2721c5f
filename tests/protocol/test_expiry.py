"""Certificates that expire, and keys that are denied, during a conversation."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

import pytest
from cryptography.x509 import Certificate
from forge import NOW, Leaf, authority, write
from message_examples import end_of, endpoint

from protocol.credentials import CLOCK_SKEW, Trust, fingerprint
from protocol.errors import IdentityError, LineBroken
from protocol.grpc_line import LineServer, dial_hub
from protocol.keyring import read_keyring
from protocol.phases import Phase, Side
from protocol.receive_queue import LineTimeouts
from tests.conftest import FEDERATION, HUB, SPOKE, Lines, grpc_lines


def without_clock_tolerance() -> datetime:
    """Return the present time without the tolerance for clock differences."""
    return datetime.now(UTC) + CLOCK_SKEW


WATCHFUL = LineTimeouts(recheck=0.2, now=without_clock_tolerance)


@contextmanager
def admitted(keys: Path, folders: dict[str, Path], denied: set[str]) -> Iterator[Lines]:
    """Open a line whose hub reads ``denied`` at every check."""
    keyring = read_keyring(folders[HUB], HUB)

    def admit(leaf: Certificate) -> str:
        trust = Trust(FEDERATION, keyring.authority, denied=frozenset(denied))
        return trust.check(leaf, datetime.now(UTC))

    with LineServer("127.0.0.1:0", keyring, admit, 1, WATCHFUL) as server:
        spoke_ring = read_keyring(folders[SPOKE], SPOKE)
        spoke = dial_hub(f"127.0.0.1:{server.port}", spoke_ring, HUB, WATCHFUL)
        yield Lines(server.accept(10), spoke)
        spoke.cut()


def short_lived(keys: Path, tmp_path: Path, name: str) -> Path:
    """Write a certificate that expires in three seconds."""
    end = datetime.now(UTC) - NOW + timedelta(seconds=3)
    leaf = Leaf(name=name, start=timedelta(minutes=-5), end=end)
    return write(tmp_path / "short", keys, name, leaf.issue(authority(keys)))


def send_until_refused(side: Side, lines: Lines) -> IdentityError:
    """Send frames until the receiving side refuses the certificate; return the error."""
    deadline = monotonic() + 20
    receiver = endpoint(lines[0 if side is Side.HUB else 1], side, Phase.READY)
    sender = lines[1 if side is Side.HUB else 0]
    while monotonic() < deadline:
        sender.send(b"word", 5)
        try:
            with receiver.channel.locate_errors():
                assert receiver.line.receive(5) == b"word"
        except IdentityError as error:
            return error
        sleep(0.05)
    raise AssertionError("it was never refused")


@pytest.mark.parametrize("whose", [SPOKE, HUB])
def test_certificate_that_ends_during_a_run_ends_the_line(
    keys: Path, tmp_path: Path, whose: str
) -> None:
    """At the hub, for the peer's certificate and for the hub's own."""
    folders = {HUB: keys, SPOKE: keys, whose: short_lived(keys, tmp_path, whose)}
    with admitted(keys, folders, set()) as lines:
        error_text = str(send_until_refused(Side.HUB, lines))
        end = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        assert re.match(
            rf"^shop: the certificate of {whose} expired at {end} \(train, ", error_text
        )
        assert isinstance(end_of(lines.spoke), LineBroken)
        assert isinstance(end_of(lines.hub), IdentityError)  # also at every later call


def test_spoke_notices_that_its_own_certificate_ended(keys: Path, tmp_path: Path) -> None:
    folders = {HUB: keys, SPOKE: short_lived(keys, tmp_path, SPOKE)}
    with admitted(keys, folders, set()) as lines:
        error_text = str(send_until_refused(Side.SPOKE, lines))
        assert error_text.startswith("bank: the certificate of shop expired at ")


def test_key_that_is_revoked_during_a_run_ends_the_line(keys: Path) -> None:
    denied: set[str] = set()
    with admitted(keys, {HUB: keys, SPOKE: keys}, denied) as lines:
        lines.spoke.send(b"word", 5)
        assert lines.hub.receive(5) == b"word"
        pin = fingerprint(read_keyring(keys, SPOKE).identity.certificate)
        denied.add(pin)
        error_text = str(send_until_refused(Side.HUB, lines))
        assert error_text.startswith(f"shop: the key of shop is denied ({pin})")
        assert isinstance(end_of(lines.spoke), LineBroken)


def test_certificates_are_checked_at_intervals(keys: Path, tmp_path: Path) -> None:
    looks = []

    def now() -> datetime:
        looks.append(1)
        return datetime.now(UTC)

    timeouts = LineTimeouts(recheck=0.2, now=now)
    with grpc_lines(keys, f"unix:{tmp_path}/hub", timeouts) as lines:
        began = monotonic()
        for _ in range(50):
            lines.spoke.send(b"word", 5)
            lines.hub.receive(5)
            sleep(0.01)
        assert 2 <= len(looks) <= 2 * (monotonic() - began) / timeouts.recheck  # two certificates
