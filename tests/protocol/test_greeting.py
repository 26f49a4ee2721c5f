"""The greeting against one who breaks its rules: a hub or a spoke moved by hand."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from seats import PLAN, Attendance, Sign, by_hand, hub_by_hand, party, properly

from parties.session import handshake as join
from parties.session.handshake import greet, welcome
from parties.session.memory_port import MemoryPort
from parties.session.party import Party
from protocol import vfl_pb2 as say
from protocol.channel import Channel
from protocol.credentials import fingerprint
from protocol.errors import Aborted, IdentityError, ProtocolError, RemoteProtocolError
from protocol.grpc_line import GrpcLine, Server, dial
from protocol.keyring import Keyring, issue, read_keyring
from protocol.line import Line, memory_lines
from protocol.phases import Phase, Side
from tests.conftest import HUB, SPOKE


def hello(us: Party, **changes: Any) -> say.Hello:
    usual = {
        "oldest_version": 1,
        "newest_version": 1,
        "nonce": b"n" * 32,
        "agreement": us.canonical,
        "clock": us.now().timestamp(),
        "software": "vfl 0",
    }
    return say.Hello(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"oldest_version": 2, "newest_version": 3}, "shop speaks versions 2 to 3, bank version 1"),
        ({"oldest_version": 0, "newest_version": 0}, "shop speaks versions 0 to 0, bank version 1"),
        ({"nonce": b"short"}, "shop"),
        ({"clock": float("nan")}, "clocks"),
        ({"clock": float("inf")}, "clocks"),
    ],
)
def test_bad_hello_is_refused(keys: Path, changes: dict[str, Any], told: str) -> None:
    port = MemoryPort()
    shop = party(keys, SPOKE, [])
    channel = by_hand(port.connect(SPOKE), Side.SPOKE, shop)
    channel.send(hello(shop, **changes))
    with pytest.raises(ProtocolError, match=told):
        welcome(party(keys, HUB, []), port)
    with pytest.raises(Aborted, match=told):
        channel.receive(5)


def test_other_version_of_the_envelope_is_refused(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, shop = MemoryPort(), party(keys, SPOKE, [])
    channel = by_hand(port.connect(SPOKE), Side.SPOKE, shop)
    monkeypatch.setattr("protocol.channel.VERSION", 2)
    channel.send(hello(shop))
    monkeypatch.undo()
    with pytest.raises(RemoteProtocolError, match="shop: speaks version 2; here it is 1"):
        welcome(party(keys, HUB, []), port)


def for_another_purpose(us: Party, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("accept", *bound)


def for_another_nonce(us: Party, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("welcome", *bound[:-1], b"o" * 32)


def in_another_session(us: Party, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("welcome", b"t" * 16, *bound[1:])


def not_at_all(us: Party, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, b""


def without_certificate(us: Party, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return b"", us.keyring.identity.sign("welcome", *bound)


def greeted_by(keys: Path, hub: Party, sign: Sign, **how: Any) -> tuple[Channel, int]:
    """What the shop makes of a hub, and how often it dialled."""
    ends, dialled = memory_lines(SPOKE), []

    def connect() -> Line:
        dialled.append(1)
        return ends[1]

    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(hub_by_hand, hub, ends[0], sign, **how)
        try:
            return greet(party(keys, SPOKE, []), connect), len(dialled)
        except IdentityError:
            assert len(dialled) == 1  # certificates and signatures are never worth a retry
            raise
        finally:
            leading.result(5)


def test_hub_by_hand_is_believed(keys: Path) -> None:
    channel, dialled = greeted_by(keys, party(keys, HUB, []), properly)
    assert (channel.phase, dialled) == (Phase.JOINED, 1)


@pytest.mark.parametrize(
    "sign", [for_another_purpose, for_another_nonce, in_another_session, not_at_all]
)
def test_wrong_signature_of_the_hub_is_refused(keys: Path, sign: Sign) -> None:
    with pytest.raises(IdentityError, match="the signature of bank for 'welcome' does not hold"):
        greeted_by(keys, party(keys, HUB, []), sign)


def test_hub_without_certificate_is_refused(keys: Path) -> None:
    with pytest.raises(IdentityError, match="no readable certificate"):
        greeted_by(keys, party(keys, HUB, []), without_certificate)


def test_other_party_in_the_place_of_the_hub_is_refused_by_its_signature(keys: Path) -> None:
    hospital = replace(party(keys, HUB, []), keyring=read_keyring(keys, "hospital"))
    with pytest.raises(IdentityError, match="hospital stands in the place of bank"):
        greeted_by(keys, hospital, properly)


def test_hub_of_another_agreement_is_refused(keys: Path) -> None:
    """It lets every Hello pass, but its signature covers its own agreement."""
    other = party(keys, HUB, [], Attendance(plan={**PLAN, "seed": 9}))
    with pytest.raises(IdentityError, match="does not hold"):
        greeted_by(keys, other, properly)


def test_clock_of_the_hub_is_checked_too(keys: Path) -> None:
    with pytest.raises(IdentityError, match="the clocks of shop and bank are 400 s apart"):
        greeted_by(keys, party(keys, HUB, []), properly, ahead=400.0)


def test_short_nonce_of_the_hub_is_refused(keys: Path) -> None:
    with pytest.raises(RemoteProtocolError, match="lacks a session or nonce"):
        greeted_by(keys, party(keys, HUB, []), properly, nonce=b"m")


def test_name_in_the_certificate_of_the_hub_is_checked_over_grpc(
    keys: Path, tmp_path: Path
) -> None:
    """A valid certificate of another party that has the hub's DNS name as well."""
    folder = tmp_path / "certs"
    folder.mkdir()
    for file in ("ca.pem", "ca.key"):
        shutil.copy(keys / file, folder / file)
    issue(folder, "trial", "hospital", hosts=[HUB])
    ring = read_keyring(folder, "hospital")
    hub = replace(party(keys, HUB, []), keyring=ring)
    address = f"unix:{tmp_path}/hub"
    with Server(address, ring, lambda leaf: SPOKE, 1) as server, ThreadPoolExecutor(1) as pool:
        leading = pool.submit(lambda: hub_by_hand(hub, server.accept(5), properly))
        line = dial(address, read_keyring(keys, SPOKE), HUB)
        with pytest.raises(IdentityError, match="hospital stands in the place of bank"):
            greet(party(keys, SPOKE, []), lambda: line)
        leading.result(5)
        line.cut()


def test_spoke_whose_seat_is_still_taken_keeps_trying(keys: Path, tmp_path: Path) -> None:
    """Its earlier stream is half open: the hub has not noticed that it broke."""
    address, ring = f"unix:{tmp_path}/hub", read_keyring(keys, SPOKE)
    hub, lines = party(keys, HUB, []), list[GrpcLine]()

    def connect() -> Line:
        lines.append(dial(address, ring, HUB))
        return lines[-1]

    with (
        Server(address, hub.keyring, lambda leaf: SPOKE, 1) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        connect()
        server.accept(5)
        greeting = pool.submit(greet, party(keys, SPOKE, []), connect)
        with pytest.raises(IdentityError, match="shop dials a second time"):
            server.accept(5)
        lines[0].cut()
        hub_by_hand(hub, server.accept(10), properly)
        assert greeting.result(10).phase is Phase.JOINED
        assert len(lines) > 2
        for line in lines:
            line.cut()


def test_pinned_key_of_the_hub_is_checked(keys: Path) -> None:
    def pin(ring: Keyring) -> str:
        return fingerprint(ring.identity.certificate)

    bank, hospital = read_keyring(keys, HUB), read_keyring(keys, "hospital")
    ends = memory_lines(SPOKE)
    shop = party(keys, SPOKE, [], Attendance(pins={HUB: [pin(hospital)]}))
    with ThreadPoolExecutor(1) as pool:
        leading = pool.submit(hub_by_hand, party(keys, HUB, []), ends[0], properly)
        with pytest.raises(IdentityError, match=f"the key of bank is {pin(bank)}; pinned"):
            greet(shop, lambda: ends[1])
        leading.result(5)


@pytest.mark.parametrize("signer", ["shop, other purpose", "hospital"])
def test_wrong_signature_of_a_spoke_is_refused(keys: Path, signer: str) -> None:
    port, shop = MemoryPort(), party(keys, SPOKE, [])
    channel = by_hand(port.connect(SPOKE), Side.SPOKE, shop)
    channel.send(hello(shop))

    def answer() -> None:
        nonce = channel.receive(5).expect(say.Welcome).nonce
        bound = join._bound(shop.digest, channel, HUB, SPOKE, b"n" * 32, nonce)
        ring = read_keyring(keys, signer.partition(",")[0])
        purpose = "welcome" if "," in signer else "accept"
        channel.send(
            say.Accept(certificate=ring.identity.der, signature=ring.identity.sign(purpose, *bound))
        )

    told = "the signature of shop" if "," in signer else "hospital signed in the place of shop"
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(answer)
        with pytest.raises(IdentityError, match=told):
            welcome(party(keys, HUB, []), port)
        answering.result(5)
