"""Handshake with a malicious hub or spoke: every broken rule is refused."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handshake_parties import (
    PLAN,
    PartyVariant,
    Sign,
    party,
    run_scripted_hub,
    scripted_channel,
    sign_correctly,
)

from parties.session import handshake
from parties.session.handshake import accept_spokes, join_hub
from parties.session.memory_port import MemoryPort
from parties.vertical.engine.party import VerticalParty
from protocol import vfl_pb2 as pb
from protocol.channel import Channel
from protocol.credentials import fingerprint
from protocol.errors import Aborted, IdentityError, ProtocolError, RemoteProtocolError
from protocol.grpc_line import GrpcLine, LineServer, dial_hub
from protocol.keyring import Keyring, issue_certificate, read_keyring
from protocol.line import Line, memory_lines
from protocol.phases import Phase, Side
from tests.conftest import HUB, SPOKE


def hello(us: VerticalParty, **changes: Any) -> pb.Hello:
    usual = {
        "oldest_version": 3,
        "newest_version": 3,
        "nonce": b"n" * 32,
        "agreement": us.canonical_agreement,
        "clock": us.now().timestamp(),
        "software": "vfl 0",
    }
    return pb.Hello(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"oldest_version": 4, "newest_version": 5},
            "shop runs vfl 0 with protocol versions 4 to 5, but bank runs vfl [0-9.]+ with "
            "protocol version 3: only versions one apart work together",
        ),
        (
            {"oldest_version": 0, "newest_version": 1},
            "shop runs vfl 0 with protocol versions 0 to 1, but bank runs vfl [0-9.]+ with "
            "protocol version 3: only versions one apart work together",
        ),
        ({"nonce": b"short"}, "shop"),
        ({"clock": float("nan")}, "clocks"),
        ({"clock": float("inf")}, "clocks"),
    ],
)
def test_bad_hello_is_refused(keys: Path, changes: dict[str, Any], message: str) -> None:
    port = MemoryPort()
    shop = party(keys, SPOKE, [])
    channel = scripted_channel(port.connect(SPOKE), Side.SPOKE, shop)
    channel.send(hello(shop, **changes))
    with pytest.raises(ProtocolError, match=message):
        accept_spokes(party(keys, HUB, []), port)
    with pytest.raises(Aborted, match=message):
        channel.receive(5)


@pytest.mark.parametrize("version", [2, 5])
def test_hub_that_chooses_another_version_is_refused(keys: Path, version: int) -> None:
    port, hub = MemoryPort(), party(keys, HUB, [])
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(join_hub, party(keys, SPOKE, []), lambda: port.connect(SPOKE))
        channel = scripted_channel(port.accept(5), Side.HUB, hub)
        channel.receive(5)
        channel.session, channel.version = b"s" * 16, version
        channel.send(pb.Welcome(nonce=b"n" * 32, clock=0.0, software="vfl 0",
                                certificate=b"c", signature=b"s"))  # fmt: skip
        error = joining.exception(5)
    assert isinstance(error, RemoteProtocolError)
    assert f"bank chose protocol version {version}; shop supports versions 3 to 3" in str(error)


def sign_another_purpose(us: VerticalParty, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("accept", *bound)


def sign_another_nonce(us: VerticalParty, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("welcome", *bound[:-1], b"o" * 32)


def sign_another_session(us: VerticalParty, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, us.keyring.identity.sign("welcome", b"t" * 16, *bound[1:])


def empty_signature(us: VerticalParty, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return us.keyring.identity.der, b""


def empty_certificate(us: VerticalParty, bound: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    return b"", us.keyring.identity.sign("welcome", *bound)


def join_scripted_hub(
    keys: Path, hub: VerticalParty, sign: Sign, **how: Any
) -> tuple[Channel, int]:
    """Return the shop's channel after a handshake, and how often the shop connected."""
    ends, dialled = memory_lines(SPOKE), []

    def connect() -> Line:
        dialled.append(1)
        return ends[1]

    with ThreadPoolExecutor(1) as pool:
        hub_future = pool.submit(run_scripted_hub, hub, ends[0], sign, **how)
        try:
            return join_hub(party(keys, SPOKE, []), connect), len(dialled)
        except IdentityError:
            assert len(dialled) == 1  # no retry after a wrong certificate or signature
            raise
        finally:
            hub_future.result(5)


def test_scripted_hub_is_accepted(keys: Path) -> None:
    channel, dialled = join_scripted_hub(keys, party(keys, HUB, []), sign_correctly)
    assert (channel.phase, dialled) == (Phase.JOINED, 1)


@pytest.mark.parametrize(
    "sign", [sign_another_purpose, sign_another_nonce, sign_another_session, empty_signature]
)
def test_wrong_signature_of_the_hub_is_refused(keys: Path, sign: Sign) -> None:
    with pytest.raises(IdentityError, match="the signature of bank for 'welcome' is invalid"):
        join_scripted_hub(keys, party(keys, HUB, []), sign)


def test_hub_without_certificate_is_refused(keys: Path) -> None:
    with pytest.raises(IdentityError, match="no valid DER certificate"):
        join_scripted_hub(keys, party(keys, HUB, []), empty_certificate)


def test_other_party_in_the_place_of_the_hub_is_refused_by_its_signature(keys: Path) -> None:
    hospital = replace(party(keys, HUB, []), keyring=read_keyring(keys, "hospital"))
    with pytest.raises(IdentityError, match=r"signed by hospital; expected .* of bank"):
        join_scripted_hub(keys, hospital, sign_correctly)


def test_hub_of_another_agreement_is_refused(keys: Path) -> None:
    """The hub accepts every Hello, but its signature covers its own agreement."""
    other = party(keys, HUB, [], PartyVariant(plan={**PLAN, "seed": 9}))
    with pytest.raises(IdentityError, match="is invalid"):
        join_scripted_hub(keys, other, sign_correctly)


def test_clock_of_the_hub_is_checked_too(keys: Path) -> None:
    with pytest.raises(IdentityError, match="the clocks of shop and bank are 400 s apart"):
        join_scripted_hub(keys, party(keys, HUB, []), sign_correctly, ahead=400.0)


def test_short_nonce_of_the_hub_is_refused(keys: Path) -> None:
    with pytest.raises(
        RemoteProtocolError, match="the session ID or the nonce in the hub's Welcome is missing"
    ):
        join_scripted_hub(keys, party(keys, HUB, []), sign_correctly, nonce=b"m")


def test_name_in_the_certificate_of_the_hub_is_checked_over_grpc(
    keys: Path, tmp_path: Path
) -> None:
    """The certificate is valid, names another party, and also has the hub's DNS name."""
    folder = tmp_path / "certs"
    folder.mkdir()
    for file in ("ca.pem", "ca.key"):
        shutil.copy(keys / file, folder / file)
    issue_certificate(folder, "trial", "hospital", hosts=[HUB])
    keyring = read_keyring(folder, "hospital")
    hub = replace(party(keys, HUB, []), keyring=keyring)
    address = f"unix:{tmp_path}/hub"
    with (
        LineServer(address, keyring, lambda leaf: SPOKE, 1) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        hub_future = pool.submit(lambda: run_scripted_hub(hub, server.accept(5), sign_correctly))
        line = dial_hub(address, read_keyring(keys, SPOKE), HUB)
        with pytest.raises(IdentityError, match=r"signed by hospital; expected .* of bank"):
            join_hub(party(keys, SPOKE, []), lambda: line)
        hub_future.result(5)
        line.cut()


def test_spoke_whose_earlier_connection_is_still_open_keeps_trying(
    keys: Path, tmp_path: Path
) -> None:
    """The hub has not noticed that the spoke's earlier stream is broken."""
    address, keyring = f"unix:{tmp_path}/hub", read_keyring(keys, SPOKE)
    hub, lines = party(keys, HUB, []), list[GrpcLine]()

    def connect() -> Line:
        lines.append(dial_hub(address, keyring, HUB))
        return lines[-1]

    with (
        LineServer(address, hub.keyring, lambda leaf: SPOKE, 1) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        connect()
        server.accept(5)
        greeting = pool.submit(join_hub, party(keys, SPOKE, []), connect)
        with pytest.raises(IdentityError, match="shop opened a second connection"):
            server.accept(5)
        lines[0].cut()
        run_scripted_hub(hub, server.accept(10), sign_correctly)
        assert greeting.result(10).phase is Phase.JOINED
        assert len(lines) > 2
        for line in lines:
            line.cut()


def test_pinned_key_of_the_hub_is_checked(keys: Path) -> None:
    def pin(keyring: Keyring) -> str:
        return fingerprint(keyring.identity.certificate)

    bank, hospital = read_keyring(keys, HUB), read_keyring(keys, "hospital")
    ends = memory_lines(SPOKE)
    shop = party(keys, SPOKE, [], PartyVariant(pins={HUB: [pin(hospital)]}))
    with ThreadPoolExecutor(1) as pool:
        hub_future = pool.submit(run_scripted_hub, party(keys, HUB, []), ends[0], sign_correctly)
        with pytest.raises(
            IdentityError, match=f"the key of bank has the pin {pin(bank)}; expected"
        ):
            join_hub(shop, lambda: ends[1])
        hub_future.result(5)


@pytest.mark.parametrize("signer", ["shop, other purpose", "hospital"])
def test_wrong_signature_of_a_spoke_is_refused(keys: Path, signer: str) -> None:
    port, shop = MemoryPort(), party(keys, SPOKE, [])
    channel = scripted_channel(port.connect(SPOKE), Side.SPOKE, shop)
    channel.send(hello(shop))

    def answer() -> None:
        nonce = channel.receive(5).expect(pb.Welcome).nonce
        bound = handshake._signed_fields(shop.digest, channel, HUB, SPOKE, b"n" * 32, nonce)
        keyring = read_keyring(keys, signer.partition(",")[0])
        purpose = "welcome" if "," in signer else "accept"
        channel.send(
            pb.Accept(
                certificate=keyring.identity.der, signature=keyring.identity.sign(purpose, *bound)
            )
        )

    message = (
        "the signature of shop" if "," in signer else "signed by hospital; expected .* of shop"
    )
    with ThreadPoolExecutor(1) as pool:
        request_pending = pool.submit(answer)
        with pytest.raises(IdentityError, match=message):
            accept_spokes(party(keys, HUB, []), port)
        request_pending.result(5)
