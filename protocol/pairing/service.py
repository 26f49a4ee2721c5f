"""The connection of a pairing: two calls over gRPC without TLS, before any certificate exists.

``Open`` exchanges the SPAKE2 messages. ``Finish`` carries the partner's encrypted request, and
returns the hub's encrypted answer when all partners have sent theirs.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import grpc

from protocol.errors import IdentityError, LineBroken
from protocol.pairing.exchange import (
    LARGEST_PAIRING,
    PAIRING_VERSION,
    PairingAnswer,
    PairingExchange,
    PairingMessage,
    PairingOpening,
    PairingRefused,
    PairingRequest,
    code_digits,
    parse_pairing,
)

_SERVICE: Final = "vfl.Pairing"
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", LARGEST_PAIRING),
    ("grpc.so_reuseport", 0),
]
_PROMPT: Final = 30.0  # seconds from a partner's first to its second message
_PARTNER: Final = "vfl-partner"  # metadata with the partner's name in the second call
_AGAIN: Final = "run vfl pair again at both parties, with a new code"


@dataclass(slots=True)
class _Place:
    """What the hub knows of one partner."""

    exchange: PairingExchange
    address: str = ""  # from where the partner called; empty: nobody has called
    opened: float = 0.0  # time of the first message, seconds of the monotonic clock
    request: PairingRequest | None = None
    answer: bytes = b""
    answered: threading.Event = field(default_factory=threading.Event)
    sent: threading.Event = field(default_factory=threading.Event)


class PairingServer:
    """The hub's side: waits until each partner has called once with the right code.

    Args:
        address: address to listen on, host:port or unix:PATH.
        federation: name of the federation.
        hub: name of this party.
        codes: code of each partner, by name. Each code is used once, right or wrong.

    Raises:
        LineBroken: the address cannot be used.
    """

    def __init__(self, address: str, federation: str, hub: str, codes: Mapping[str, str]) -> None:
        self._federation = federation
        self._places = {
            name: _Place(PairingExchange("hub", code_digits(code), (federation, hub, name)))
            for name, code in codes.items()
        }
        self._changed = threading.Condition()
        self._failure: IdentityError | None = None
        # A call of ``Finish`` holds a thread until all partners have called.
        self._server = grpc.server(ThreadPoolExecutor(len(codes) + 4), options=_OPTIONS)
        methods = {"Open": self._open, "Finish": self._finish}
        handlers: dict[str, Any] = {
            name: grpc.unary_unary_rpc_method_handler(each) for name, each in methods.items()
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, handlers),)
        )
        try:
            self._server.add_insecure_port(address)
        except RuntimeError:
            raise LineBroken(
                f"cannot listen on {address}",
                "another process uses the port, or the machine does not have the address",
            ) from None
        self._server.start()

    def requests(
        self, seconds: float, arrived: Callable[[str, str], None]
    ) -> dict[str, PairingRequest]:
        """Wait for all partners, and return the request of each.

        Args:
            seconds: longest time to wait.
            arrived: called with the name and the address of each partner that had the right code.

        Raises:
            IdentityError: a code was wrong, or a partner called and went silent.
            LineBroken: a partner did not call in time.
        """
        deadline, seen = time.monotonic() + seconds, set[str]()
        with self._changed:
            while True:
                for name, place in self._places.items():
                    if place.request is not None and name not in seen:
                        seen.add(name)
                        arrived(name, place.address)
                self._check_waiting(deadline)
                if len(seen) == len(self._places):
                    return {n: p.request for n, p in self._places.items() if p.request is not None}
                self._changed.wait(0.5)

    def answer(self, answers: Mapping[str, PairingMessage]) -> None:
        """Send each partner its answer, and close the server."""
        for name, message in answers.items():
            place = self._places[name]
            place.answer = place.exchange.seal(message)
            place.answered.set()
        for place in self._places.values():
            place.sent.wait(_PROMPT)
        self.close()

    def close(self) -> None:
        """Stop listening; calls that wait are ended."""
        self._server.stop(grace=2.0).wait()

    def _check_waiting(self, deadline: float) -> None:
        if self._failure is not None:
            raise self._failure
        now = time.monotonic()
        for name, place in self._places.items():
            if place.address and place.request is None and now > place.opened + _PROMPT:
                raise IdentityError(
                    f"{place.address} called as {name} and did not prove that it has the code",
                    _AGAIN,
                )
        if now > deadline:
            absent = [name for name, place in self._places.items() if place.request is None]
            raise LineBroken(f"{', '.join(absent)} did not call in time", _AGAIN)

    def _open(self, content: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer a partner's SPAKE2 message; the code is then used."""
        try:
            opening = parse_pairing(PairingOpening, content)
        except IdentityError:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "")
        if opening.version != PAIRING_VERSION or opening.federation != self._federation:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "")
        place = self._places.get(opening.partner)
        if place is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "")
        with self._changed:
            if place.address:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "")
            place.address, place.opened = context.peer(), time.monotonic()
            try:
                place.exchange.finish(opening.share)
            except IdentityError as error:
                self._fail(opening.partner, place, error)
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "")
        return place.exchange.share.encode()

    def _finish(self, sealed: bytes, context: grpc.ServicerContext) -> bytes:
        """Take a partner's request, wait for the others, and return the answer."""
        name = str(dict(context.invocation_metadata()).get(_PARTNER, ""))
        place = self._places.get(name)
        if place is None or place.address == "" or place.request is not None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "")
        with self._changed:
            try:
                place.request = parse_pairing(PairingRequest, place.exchange.open(sealed))
            except IdentityError as error:
                self._fail(name, place, error)
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "")
            self._changed.notify_all()
        context.add_callback(place.sent.set)
        while not place.answered.wait(0.5):
            if not context.is_active():
                context.abort(grpc.StatusCode.CANCELLED, "")
        return place.answer

    def _fail(self, name: str, place: _Place, error: IdentityError) -> None:
        self._failure = IdentityError(f"{name}, called from {place.address}: {error}", error.hint)
        self._changed.notify_all()


def request_pairing(
    address: str, names: tuple[str, str, str], code: str, request: PairingRequest, seconds: float
) -> PairingAnswer:
    """Call the hub with the code, and return its answer.

    Args:
        address: address of the hub, host:port or unix:PATH.
        names: federation, hub and this party.
        code: the code, with or without hyphens.
        request: this party's certificate request and agreement.
        seconds: longest time to wait for the hub, and then for the other partners.

    Raises:
        IdentityError: the code is wrong or used, or the hub refuses.
        LineBroken: the hub cannot be reached, or the connection is lost.
        ValueError: the code does not have eight digits.
    """
    federation, hub, partner = names
    exchange = PairingExchange("partner", code_digits(code), names)
    opening = PairingOpening(
        version=PAIRING_VERSION, federation=federation, partner=partner, share=exchange.share
    )
    with grpc.insecure_channel(address, options=_OPTIONS[:1]) as channel:
        share = _call(channel, "Open", opening.model_dump_json().encode(), partner, seconds)
        exchange.finish(share.decode(errors="replace"))
        answer = exchange.open(_call(channel, "Finish", exchange.seal(request), partner, seconds))
    try:
        return parse_pairing(PairingAnswer, answer)
    except IdentityError:
        refused = parse_pairing(PairingRefused, answer)
    raise IdentityError(f"{hub} refuses: {refused.refused}", _AGAIN)


def _call(channel: Any, method: str, content: bytes, partner: str, seconds: float) -> bytes:
    call = channel.unary_unary(f"/{_SERVICE}/{method}")
    try:
        answer: bytes = call(
            content,
            timeout=seconds,
            wait_for_ready=method == "Open",
            metadata=[(_PARTNER, partner)],
        )
    except grpc.RpcError as error:
        raise _explained(error.code(), partner) from None
    return answer


def _explained(code: grpc.StatusCode, partner: str) -> IdentityError | LineBroken:
    status = grpc.StatusCode
    if code is status.NOT_FOUND:
        return IdentityError(
            f"the hub waits for no party {partner!r}", "give both the same agreement"
        )
    if code is status.INVALID_ARGUMENT:
        return IdentityError(
            "the hub has another federation, or another version of vfl",
            "give both the same agreement, and install the same version of vfl",
        )
    if code is status.FAILED_PRECONDITION:
        return IdentityError(f"the code of {partner} is used already", _AGAIN)
    if code is status.PERMISSION_DENIED:
        return IdentityError("the code is wrong", _AGAIN)
    if code is status.DEADLINE_EXCEEDED:
        return LineBroken("the hub did not answer in time", "start vfl pair at the hub first")
    return LineBroken(
        "the connection to the hub was closed before the pairing was complete",
        "the hub shows the reason; then run vfl pair again at both parties",
    )
