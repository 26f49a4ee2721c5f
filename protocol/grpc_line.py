"""A line over gRPC: one long-lived stream of frames per spoke, always under mutual TLS 1.3."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, Queue
from threading import Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

import grpc
from cryptography import x509

from protocol.credentials import SKEW, hesitate
from protocol.diagnose import diagnose
from protocol.ear import Ear, Habits
from protocol.errors import IdentityError, LineBroken, PeerSilent, ProtocolError
from protocol.frames import MAX_FRAME
from protocol.keyring import Keyring
from protocol.line import Mailbox

_METHOD = "/vfl.Line/Talk"
USUAL = Habits()
REFUSALS = 100  # that may wait to be told; of a flood the first ones are enough


def options(habits: Habits) -> list[tuple[str, int]]:
    """What gRPC is told at both ends."""
    return [
        # Twice the cap: what is a little too large is refused in words by ``frames``.
        ("grpc.max_receive_message_length", 2 * MAX_FRAME),
        ("grpc.max_send_message_length", MAX_FRAME),
        ("grpc.max_metadata_size", 8192),
        ("grpc.absolute_max_metadata_size", 8192),
        ("grpc.max_concurrent_streams", 16),
        ("grpc.enable_retries", 0),
        ("grpc.so_reuseport", 0),
        ("grpc.enable_http_proxy", 0),  # a proxy of the environment would stand between
        ("grpc.server_handshake_timeout_ms", int(habits.handshake * 1000)),
        ("grpc.keepalive_time_ms", int(habits.keepalive * 1000)),
        ("grpc.keepalive_timeout_ms", int(habits.keepalive_timeout * 1000)),
        # Without this one an unanswered ping is waited for over a minute, whatever the one above.
        ("grpc.http2.ping_timeout_ms", int(habits.keepalive_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", int(habits.keepalive * 500)),
    ]


class GrpcLine:
    """One end of a stream; its ear takes in what comes, gRPC drains the outbox."""

    def __init__(
        self,
        peer: str | None,
        ear: Ear,
        hang_up: Callable[[], object],
        vouch: Callable[[], None],
        habits: Habits,
    ) -> None:
        """``vouch`` raises ``IdentityError`` once a certificate is no longer good."""
        self._peer, self._ear, self._hang_up = peer, ear, hang_up
        self._vouch, self._habits = vouch, habits
        self._look = monotonic() + habits.recheck  # when certificates are looked at again
        self.outbox, self._since = Mailbox(), monotonic()

    @property
    def since(self) -> float:
        """See ``Line``."""
        return self._since

    @property
    def peer(self) -> str | None:
        """The party named by the peer's certificate; at a spoke None, see ``join``."""
        return self._peer

    def send(self, frame: bytes, timeout: float) -> None:
        """Queue one frame for the stream."""
        self.outbox.put(frame, timeout)

    def receive(self, timeout: float) -> bytes:
        """The next frame.

        Raises:
            PeerSilent: none came in time, or no sign of life either.
            IdentityError: a certificate that was good when the line was made no longer is.
        """
        frame = self._ear.listen(timeout)
        if monotonic() > self._look:
            self._look_again()
        return frame

    def _look_again(self) -> None:
        self._look = monotonic() + self._habits.recheck
        try:
            self._vouch()
        except IdentityError as error:
            self.end(error)
            self._hang_up()
            raise

    def close(self) -> None:
        """End our direction; at a spoke this ends the stream once the outbox is empty."""
        self.outbox.end()

    def cut(self) -> None:
        """Drop the stream at once."""
        self._hang_up()
        self.end(None)

    def end(self, why: ProtocolError | None) -> None:
        """Nothing goes or comes any more."""
        self.outbox.end(why)
        self._ear.inbox.end(why)

    def outgoing(self) -> Iterator[bytes]:
        """Frames for gRPC until ``close``, and empty ones while we have nothing to say."""
        while True:
            try:
                yield self.outbox.get(self._habits.beat)
            except PeerSilent:
                yield b""
            except ProtocolError:
                return

    def read(
        self, frames: Iterator[object], explain: Callable[[grpc.RpcError], ProtocolError]
    ) -> None:
        """Keep the stream flowing until it ends; runs in a thread of its own."""
        try:
            self._ear.drain(frames)
        except grpc.RpcError as error:
            self.end(explain(error))  # nobody takes what we say any more
        except ProtocolError:
            self._hang_up()  # it was we who ended it
        else:
            self._ear.inbox.end()


class Server:
    """The hub's port: admits spokes by certificate and hands out their lines."""

    def __init__(
        self,
        address: str,
        keyring: Keyring,
        admit: Callable[[x509.Certificate], str],
        seats: int,
        habits: Habits = USUAL,
    ) -> None:
        """Listen on ``address``; ``admit`` names the party of a leaf or raises ``IdentityError``.

        Raises:
            LineBroken: the address cannot be listened on.
        """
        self._keyring, self._admit, self._habits = keyring, admit, habits
        self._arrivals: Queue[GrpcLine | IdentityError] = Queue()
        self._seated: dict[str, bool] = {}  # whether somebody was refused since: told once
        self._lock = Lock()
        self._server = grpc.server(
            ThreadPoolExecutor(seats + 4, thread_name_prefix="vfl-line"),
            options=options(habits),
            maximum_concurrent_rpcs=seats + 4,
        )
        self._server.add_generic_rpc_handlers((_Calls(self._talk, habits),))
        credentials = grpc.ssl_server_credentials(
            [(keyring.key_pem, keyring.certificate_pem)],
            keyring.authority_pem,
            require_client_auth=True,
        )
        try:
            self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise LineBroken(
                f"cannot listen on {address}", "is the port free, the address ours?"
            ) from error
        self._server.start()

    def accept(self, timeout: float) -> GrpcLine:
        """The next spoke's line.

        Raises:
            PeerSilent: nobody came in ``timeout`` seconds.
            IdentityError: somebody came whom we refuse; others may still come.
        """
        try:
            arrival = self._arrivals.get(timeout=timeout)
        except Empty:
            raise PeerSilent(f"nobody dialled for {timeout:g} s") from None
        if isinstance(arrival, IdentityError):
            raise arrival
        return arrival

    def _talk(
        self, ear: Ear, frames: Iterator[object], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        leaf = _leaf(context)
        name = self._name(leaf, context)
        line = GrpcLine(name, ear, context.cancel, partial(self._vouch, name, leaf), self._habits)
        reader = Thread(target=line.read, args=(frames, _broken), name=f"read-{name}", daemon=True)
        reader.start()
        context.add_callback(line.outbox.end)
        if not context.add_callback(lambda: self._leave(name)):  # the stream is over already
            self._leave(name)
        self._arrivals.put(line)
        yield from line.outgoing()

    def _name(self, leaf: x509.Certificate, context: grpc.ServicerContext) -> str:
        """The party that dials; a refused one learns a ticket, our log the reason."""
        try:
            name = self._admit(leaf)
        except IdentityError as error:
            ticket = error.ticket  # all that the peer learns; our log tells the reason beside it
            self._tell(error)
            hesitate()
            context.abort(grpc.StatusCode.PERMISSION_DENIED, ticket)
        with self._lock:
            told = self._seated.get(name)
            self._seated[name] = told is not None
        if told is not None:
            if not told:
                self._tell(IdentityError(f"{name} dials a second time", "one process a seat"))
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "the seat is taken")
        return name

    def _tell(self, refused: IdentityError) -> None:
        if self._arrivals.qsize() < REFUSALS:
            self._arrivals.put(refused)

    def _vouch(self, name: str, leaf: x509.Certificate) -> None:
        """The certificates of both sides are still as good as when the line was made."""
        _check_end(name, leaf, self._habits)
        _check_end(self._keyring.identity.name, self._keyring.identity.certificate, self._habits)
        if self._admit(leaf) != name:
            raise IdentityError(f"the certificate of {name} now names another party")

    def _leave(self, name: str) -> None:
        """A party whose stream has ended may dial again."""
        with self._lock:
            self._seated.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None
    ) -> None:
        """Stop listening; streams get a moment to deliver what was sent."""
        self._server.stop(2.0).wait(5.0)


class _Calls(grpc.GenericRpcHandler):
    """Gives every stream an ear of its own before its first frame comes."""

    def __init__(
        self,
        talk: Callable[[Ear, Iterator[object], grpc.ServicerContext], Iterator[bytes]],
        habits: Habits,
    ) -> None:
        self._talk, self._habits = talk, habits

    def service(self, call: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        if call.method != _METHOD:
            return None
        ear = Ear(self._habits)
        return grpc.stream_stream_rpc_method_handler(
            partial(self._talk, ear), request_deserializer=ear.arrived
        )


def _leaf(context: grpc.ServicerContext) -> x509.Certificate:
    pem: bytes = context.auth_context()["x509_pem_cert"][0]  # type: ignore[assignment]
    return x509.load_pem_x509_certificate(pem)


def _check_end(name: str, certificate: x509.Certificate, habits: Habits) -> None:
    end = certificate.not_valid_after_utc
    if habits.now() > end + SKEW:
        raise IdentityError(
            f"the certificate of {name} ended at {end:%Y-%m-%d %H:%M:%S} UTC",
            "renew it and start again",
        )


def _broken(_: grpc.RpcError) -> ProtocolError:
    return LineBroken("closed the connection")


def dial(address: str, keyring: Keyring, hub: str, habits: Habits = USUAL) -> GrpcLine:
    """Dial the hub, known by the DNS name ``hub`` in its certificate."""
    credentials = grpc.ssl_channel_credentials(
        keyring.authority_pem, keyring.key_pem, keyring.certificate_pem
    )
    channel = grpc.secure_channel(
        address, credentials, [*options(habits), ("grpc.ssl_target_name_override", hub)]
    )

    def explain(error: Any) -> ProtocolError:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE:
                return diagnose(address, keyring, hub)
            case grpc.StatusCode.ALREADY_EXISTS:
                return LineBroken(
                    "the seat is still taken by an earlier connection",
                    "does another process of this party run?",
                )
            case grpc.StatusCode.PERMISSION_DENIED:
                return IdentityError(
                    f"the hub refused our certificate (ticket {error.details()})",
                    "its operator finds the reason under this ticket",
                )
        details = f"{error.code().name.lower()}: {error.details()!r:.100}"
        return LineBroken(f"closed the connection ({details})")

    ours, ear = keyring.identity, Ear(habits)
    vouch = partial(_check_end, ours.name, ours.certificate, habits)
    line = GrpcLine(None, ear, channel.close, vouch, habits)
    talk: grpc.StreamStreamMultiCallable[bytes, bool] = channel.stream_stream(
        _METHOD, response_deserializer=ear.arrived
    )
    frames = talk(line.outgoing())

    def incoming() -> Iterator[object]:
        yield from frames
        line.outbox.end()  # the hub has ended the stream: nobody takes what we say any more

    def read() -> None:
        line.read(incoming(), explain)
        channel.close()

    Thread(target=read, name="read-hub", daemon=True).start()
    return line
