"""Certificates that end, and keys that are revoked, while a conversation goes on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep

import pytest
from cryptography.x509 import Certificate
from forge import NOW, Leaf, authority, write
from talk import end_of, speaker

from protocol.credentials import SKEW, Trust, fingerprint
from protocol.ear import Habits
from protocol.errors import IdentityError, LineBroken
from protocol.grpc_line import Server, dial
from protocol.keyring import read_keyring
from protocol.phases import Phase, Side
from tests.conftest import FEDERATION, HUB, SPOKE, Lines, grpc_lines


def later() -> datetime:
    """As if nobody allowed for clocks that differ."""
    return datetime.now(UTC) + SKEW


WATCHFUL = Habits(recheck=0.2, now=later)


@contextmanager
def admitted(keys: Path, folders: dict[str, Path], denied: set[str]) -> Iterator[Lines]:
    """A line whose hub reads the deny list anew at every look."""
    ring = read_keyring(folders[HUB], HUB)

    def admit(leaf: Certificate) -> str:
        trust = Trust(FEDERATION, ring.authority, denied=frozenset(denied))
        return trust.check(leaf, datetime.now(UTC))

    with Server("127.0.0.1:0", ring, admit, 1, WATCHFUL) as server:
        spoke_ring = read_keyring(folders[SPOKE], SPOKE)
        spoke = dial(f"127.0.0.1:{server.port}", spoke_ring, HUB, WATCHFUL)
        yield Lines(server.accept(10), spoke)
        spoke.cut()


def short_lived(keys: Path, tmp_path: Path, name: str) -> Path:
    """A certificate that ends in three seconds."""
    end = datetime.now(UTC) - NOW + timedelta(seconds=3)
    leaf = Leaf(name=name, start=timedelta(minutes=-5), end=end)
    return write(tmp_path / "short", keys, name, leaf.issue(authority(keys)))


def talk_until_refused(hears: Side, lines: Lines) -> IdentityError:
    """Words go up and down; both sides are named in the errors."""
    deadline = monotonic() + 20
    hearing = speaker(lines[0 if hears is Side.HUB else 1], hears, Phase.READY)
    saying = lines[1 if hears is Side.HUB else 0]
    while monotonic() < deadline:
        saying.send(b"word", 5)
        try:
            with hearing.channel._blame():
                assert hearing.line.receive(5) == b"word"
        except IdentityError as error:
            return error
        sleep(0.05)
    raise AssertionError("it was never refused")


@pytest.mark.parametrize("whose", [SPOKE, HUB])
def test_certificate_that_ends_during_a_run_ends_the_line(
    keys: Path, tmp_path: Path, whose: str
) -> None:
    """The peer's and our own."""
    folders = {HUB: keys, SPOKE: keys, whose: short_lived(keys, tmp_path, whose)}
    with admitted(keys, folders, set()) as lines:
        told = str(talk_until_refused(Side.HUB, lines))
        end = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        assert re.match(rf"^shop: the certificate of {whose} ended at {end} \(train, ", told)
        assert isinstance(end_of(lines.spoke), LineBroken)
        assert isinstance(end_of(lines.hub), IdentityError)  # for good


def test_spoke_notices_that_its_own_certificate_ended(keys: Path, tmp_path: Path) -> None:
    folders = {HUB: keys, SPOKE: short_lived(keys, tmp_path, SPOKE)}
    with admitted(keys, folders, set()) as lines:
        told = str(talk_until_refused(Side.SPOKE, lines))
        assert told.startswith("bank: the certificate of shop ended at ")


def test_key_that_is_revoked_during_a_run_ends_the_line(keys: Path) -> None:
    denied: set[str] = set()
    with admitted(keys, {HUB: keys, SPOKE: keys}, denied) as lines:
        lines.spoke.send(b"word", 5)
        assert lines.hub.receive(5) == b"word"
        pin = fingerprint(read_keyring(keys, SPOKE).identity.certificate)
        denied.add(pin)
        told = str(talk_until_refused(Side.HUB, lines))
        assert told.startswith(f"shop: the key of shop was revoked ({pin})")
        assert isinstance(end_of(lines.spoke), LineBroken)


def test_certificates_are_looked_at_now_and_then_only(keys: Path, tmp_path: Path) -> None:
    looks = []

    def now() -> datetime:
        looks.append(1)
        return datetime.now(UTC)

    habits = Habits(recheck=0.2, now=now)
    with grpc_lines(keys, f"unix:{tmp_path}/hub", habits) as lines:
        began = monotonic()
        for _ in range(50):
            lines.spoke.send(b"word", 5)
            lines.hub.receive(5)
            sleep(0.01)
        assert 2 <= len(looks) <= 2 * (monotonic() - began) / habits.recheck  # two certificates
