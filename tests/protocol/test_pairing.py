"""Pairing by a code: both sides derive the same keys only with the same code and names."""

import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from protocol.errors import IdentityError, LineBroken, ProtocolError
from protocol.pairing.exchange import (
    PAIRING_VERSION,
    PairingAnswer,
    PairingExchange,
    PairingOpening,
    PairingRefused,
    PairingRequest,
    code_digits,
    new_code,
    parse_pairing,
)
from protocol.pairing.service import PairingServer, request_pairing

NAMES = ("people", "bank", "shop")
CODE = "0123-4567"
REQUEST = PairingRequest(certificate_request="csr", agreement="{}", pins={})
ANSWER = PairingAnswer(authority="ca", certificate="pem", pins={"shop": [f"sha256:{64 * '0'}"]})


def _finished(
    code: str = "01234567", names: tuple[str, str, str] = NAMES
) -> tuple[PairingExchange, PairingExchange]:
    """Both sides after their shares; the partner has ``code`` and ``names``."""
    hub = PairingExchange("hub", "01234567", NAMES)
    partner = PairingExchange("partner", code, names)
    hub.finish(partner.share)
    partner.finish(hub.share)
    return hub, partner


def test_messages_pass_in_both_directions() -> None:
    hub, partner = _finished()
    assert parse_pairing(PairingRequest, hub.open(partner.seal(REQUEST))) == REQUEST
    assert parse_pairing(PairingAnswer, partner.open(hub.seal(ANSWER))) == ANSWER


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("01234568", NAMES),
        ("01234567", ("people", "bank", "other")),
        ("01234567", ("people", "other", "shop")),
        ("01234567", ("other", "bank", "shop")),
    ],
)
def test_another_code_or_name_opens_nothing(code: str, names: tuple[str, str, str]) -> None:
    hub, partner = _finished(code, names)
    with pytest.raises(IdentityError, match="code is wrong"):
        hub.open(partner.seal(REQUEST))
    with pytest.raises(IdentityError, match="code is wrong"):
        partner.open(hub.seal(ANSWER))


def test_a_changed_or_returned_message_is_refused() -> None:
    hub, partner = _finished()
    sealed = partner.seal(REQUEST)
    with pytest.raises(IdentityError):
        partner.open(sealed)  # reflected by an attacker
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(IdentityError):
            hub.open(bytes(changed))


def test_only_one_message_is_sealed_with_a_key() -> None:
    hub, _ = _finished()
    hub.seal(ANSWER)
    with pytest.raises(KeyError):
        hub.seal(ANSWER)


@pytest.mark.parametrize(
    "share", ["", "!", "QQ==", "QkI=", "QgEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]
)
def test_a_share_that_is_none_is_refused(share: str) -> None:
    with pytest.raises(IdentityError, match="no share"):
        PairingExchange("partner", "01234567", NAMES).finish(share)


def test_a_returned_share_is_refused() -> None:
    exchange = PairingExchange("hub", "01234567", NAMES)
    with pytest.raises(IdentityError, match="no share"):
        exchange.finish(exchange.share)


def test_codes_are_eight_random_digits() -> None:
    codes = {new_code() for _ in range(100)}
    assert len(codes) == 100
    assert all(len(code_digits(code)) == 8 for code in codes)
    assert code_digits(" 0123 45-67 ") == "01234567"
    for wrong in ("0123456", "012345678", "0123456a", "０1234567"):
        with pytest.raises(ValueError, match="8 digits"):
            code_digits(wrong)


class _Hub:
    """A hub that waits for the shop, in a thread."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.server = PairingServer(address, "people", "bank", {"shop": CODE})
        self.outcome: ProtocolError | dict[str, PairingRequest] | None = None
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self.outcome = self.server.requests(20.0, lambda *_: None)
        except ProtocolError as error:
            self.outcome = error

    def end(self) -> ProtocolError | dict[str, PairingRequest] | None:
        """Return what the hub waited for."""
        self._thread.join(20.0)
        return self.outcome

    def call(self, method: str, content: bytes, name: str = "shop") -> grpc.StatusCode:
        """Call the hub without a partner's program; return the status of its refusal."""
        with grpc.insecure_channel(self.address) as channel:
            call = channel.unary_unary(f"/vfl.Pairing/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(content, timeout=5.0, metadata=[("vfl-partner", name)])
        code: grpc.StatusCode = caught.value.code()
        return code


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[_Hub]:
    found = _Hub(f"unix:{tmp_path / 'hub'}")
    yield found
    found.server.close()


def _call(hub: _Hub, code: str = CODE) -> PairingAnswer:
    return request_pairing(hub.address, NAMES, code, REQUEST, 10.0)


def test_a_partner_with_the_code_gets_the_answer(hub: _Hub) -> None:
    def reply() -> None:
        assert hub.end() == {"shop": REQUEST}
        hub.server.answer({"shop": ANSWER})

    replies = threading.Thread(target=reply)
    replies.start()
    assert _call(hub, "01234567") == ANSWER
    replies.join()


def test_the_reason_of_a_refusal_is_told(hub: _Hub) -> None:
    def reply() -> None:
        hub.end()
        hub.server.answer({"shop": PairingRefused(refused="another key is pinned")})

    replies = threading.Thread(target=reply)
    replies.start()
    with pytest.raises(IdentityError, match="bank refuses: another key is pinned"):
        _call(hub)
    replies.join()


def test_a_wrong_code_ends_the_pairing_of_both(hub: _Hub) -> None:
    with pytest.raises(IdentityError, match="the code is wrong"):
        _call(hub, "0123-4568")
    outcome = hub.end()
    assert isinstance(outcome, IdentityError)
    assert "shop, called from" in str(outcome)
    with pytest.raises(IdentityError, match="used already"):
        _call(hub)  # nobody can try a second code


def test_calls_that_are_no_pairing_are_refused(hub: _Hub) -> None:
    status = grpc.StatusCode
    opening = PairingOpening(
        version=PAIRING_VERSION, federation="people", partner="shop", share="QQ=="
    )
    for changed in ({"federation": "other"}, {"version": 1}):
        content = opening.model_copy(update=changed).model_dump_json().encode()
        assert hub.call("Open", content) is status.INVALID_ARGUMENT
    assert hub.call("Open", b"{") is status.INVALID_ARGUMENT
    stranger = opening.model_copy(update={"partner": "stranger"}).model_dump_json().encode()
    assert hub.call("Open", stranger) is status.NOT_FOUND
    assert hub.call("Finish", b"x") is status.FAILED_PRECONDITION
    assert hub.call("Finish", b"x", "stranger") is status.FAILED_PRECONDITION
    assert hub.call("Open", b" " * 2**21) is status.RESOURCE_EXHAUSTED
    assert hub.outcome is None  # none of them used the code
    assert hub.call("Open", opening.model_dump_json().encode()) is status.PERMISSION_DENIED
    assert isinstance(hub.end(), IdentityError)


def test_a_hub_without_callers_stops_waiting(tmp_path: Path) -> None:
    server = PairingServer(f"unix:{tmp_path / 'hub'}", "people", "bank", {"shop": CODE})
    with pytest.raises(LineBroken, match="shop did not call in time"):
        server.requests(0.1, lambda *_: None)
    server.close()


def test_an_absent_hub_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LineBroken, match="did not answer in time"):
        request_pairing(f"unix:{tmp_path / 'hub'}", NAMES, CODE, REQUEST, 0.3)
