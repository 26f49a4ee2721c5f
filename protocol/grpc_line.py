"""Connections over gRPC: one two-way stream of frames per spoke, always under mutual TLS 1.3."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, Queue
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

import grpc
from cryptography import x509

from protocol.credentials import CLOCK_SKEW, delay_refusal
from protocol.diagnose import diagnose_connection
from protocol.errors import IdentityError, LineBroken, PeerSilent, ProtocolError
from protocol.frames import MAX_FRAME
from protocol.keyring import Keyring
from protocol.line import FrameQueue
from protocol.receive_queue import LineTimeouts, ReceiveQueue

_METHOD = "/vfl.Line/Talk"
DEFAULT_TIMEOUTS = LineTimeouts()
MAX_QUEUED_REFUSALS = 100  # further refusals are not reported
DELIVERY = 2.0  # seconds in which a spoke that closes its line sends the frames that are queued


def grpc_options(timeouts: LineTimeouts) -> list[tuple[str, int]]:
    """Return the gRPC options that both ends of a connection use."""
    return [
        # Twice the limit, so that ``frames`` refuses a slightly larger frame with its own error.
        ("grpc.max_receive_message_length", 2 * MAX_FRAME),
        ("grpc.max_send_message_length", MAX_FRAME),
        ("grpc.max_metadata_size", 8192),
        ("grpc.absolute_max_metadata_size", 8192),
        ("grpc.max_concurrent_streams", 16),
        ("grpc.enable_retries", 0),
        ("grpc.so_reuseport", 0),
        ("grpc.enable_http_proxy", 0),  # ignore the proxy of the environment variables
        ("grpc.server_handshake_timeout_ms", int(timeouts.handshake * 1000)),
        ("grpc.keepalive_time_ms", int(timeouts.keepalive * 1000)),
        ("grpc.keepalive_timeout_ms", int(timeouts.keepalive_timeout * 1000)),
        # Without this option gRPC waits over a minute for a ping, whatever the option above says.
        ("grpc.http2.ping_timeout_ms", int(timeouts.keepalive_timeout * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", int(timeouts.keepalive * 500)),
    ]


class GrpcLine:
    """One end of a gRPC stream, with a queue of received frames and a queue of outgoing frames."""

    def __init__(
        self,
        peer: str | None,
        received: ReceiveQueue,
        cancel: Callable[[], object],
        check_certificates: Callable[[], None],
        timeouts: LineTimeouts,
    ) -> None:
        """Wrap one stream.

        Args:
            peer: name in the peer's certificate; None at a spoke, where the TLS handshake already
                checks the name of the hub.
            received: the frames that the stream received.
            cancel: ends the stream immediately.
            check_certificates: raises ``IdentityError`` if a certificate is no longer valid.
            timeouts: timeouts of this line.
        """
        self.peer, self._received, self._cancel = peer, received, cancel
        self._check_certificates, self._timeouts = check_certificates, timeouts
        self._next_check = monotonic() + timeouts.recheck
        self.outbox = FrameQueue()
        self._all_sent = Event()

    def send(self, frame: bytes, timeout: float) -> None:
        """Queue one frame for the stream."""
        self.outbox.put(frame, timeout)

    def receive(self, timeout: float) -> bytes:
        """Return the next frame, and check the certificates if a check is due.

        Raises:
            PeerSilent: no frame arrived for ``timeout`` seconds, or heartbeats stopped.
            LineBroken: the connection is closed.
            IdentityError: a certificate is no longer valid.
        """
        frame = self._received.get(timeout)
        if monotonic() > self._next_check:
            self._recheck()
        return frame

    def _recheck(self) -> None:
        self._next_check = monotonic() + self._timeouts.recheck
        try:
            self._check_certificates()
        except IdentityError as error:
            self.end(error)
            self._cancel()
            raise

    def close(self) -> None:
        """Stop sending; at a spoke the stream ends once all queued frames have been sent.

        A spoke waits up to ``DELIVERY`` seconds for that: its process may exit after this call,
        and a frame that gRPC has not taken would be lost, for example the reason of an error. At
        the hub the end of ``LineServer`` waits.
        """
        self.outbox.end()
        if self.peer is None:
            self._all_sent.wait(DELIVERY)

    def cut(self) -> None:
        """End both directions immediately."""
        self._cancel()
        self.end(None)

    def end(self, why: ProtocolError | None) -> None:
        """End both queues of frames; after that, ``send`` and ``receive`` raise ``why``."""
        self.outbox.end(why)
        self._received.frames.end(why)

    def outgoing(self) -> Iterator[bytes]:
        """Yield frames to gRPC until ``close`` is called; an empty frame is sent as a heartbeat."""
        while True:
            try:
                yield self.outbox.get(self._timeouts.heartbeat)
            except PeerSilent:
                yield b""
            except ProtocolError:
                self._all_sent.set()  # gRPC asks for a frame only when it has taken the one before
                return

    def read(
        self, stream: Iterator[object], explain: Callable[[grpc.RpcError], ProtocolError]
    ) -> None:
        """Read the stream until the stream ends; runs in a separate thread."""
        try:
            self._received.drain(stream)
        except grpc.RpcError as error:
            self.end(explain(error))  # gRPC takes no frame of the outbox any more
        except ProtocolError:
            self._cancel()  # this side ended the line
        else:
            self._received.frames.end()
        finally:
            self._all_sent.set()  # or never will be


class LineServer:
    """The hub's listening port: checks the certificate of each spoke that connects."""

    def __init__(
        self,
        address: str,
        keyring: Keyring,
        admit: Callable[[x509.Certificate], str],
        spokes: int,
        timeouts: LineTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        """Listen on ``address`` for the given number of ``spokes``.

        ``admit`` returns the party that a certificate names, or raises ``IdentityError``.

        Raises:
            LineBroken: the address cannot be used.
        """
        self._keyring, self._admit, self._timeouts = keyring, admit, timeouts
        self._arrivals: Queue[GrpcLine | IdentityError] = Queue()
        # Connected parties; True once a second connection of the party was reported.
        self._connected: dict[str, bool] = {}
        self._lock = Lock()
        self._server = grpc.server(
            ThreadPoolExecutor(spokes + 4, thread_name_prefix="vfl-line"),
            options=grpc_options(timeouts),
            maximum_concurrent_rpcs=spokes + 4,
        )
        self._server.add_generic_rpc_handlers((_Calls(self._serve, timeouts),))
        credentials = grpc.ssl_server_credentials(
            [(keyring.key_pem, keyring.certificate_pem)],
            keyring.authority_pem,
            require_client_auth=True,
        )
        try:
            self.port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise LineBroken(
                f"cannot listen on {address}",
                "check that the port is free and that the address belongs to this machine",
            ) from error
        self._server.start()

    def accept(self, timeout: float) -> GrpcLine:
        """Return the hub's end of the connection to the next spoke that connects.

        Raises:
            PeerSilent: no party connected for ``timeout`` seconds.
            IdentityError: a connection was refused; the server still accepts other connections.
        """
        try:
            arrival = self._arrivals.get(timeout=timeout)
        except Empty:
            raise PeerSilent(f"no party connected for {timeout:g} s") from None
        if isinstance(arrival, IdentityError):
            raise arrival
        return arrival

    def _serve(
        self, received: ReceiveQueue, stream: Iterator[object], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        leaf = _leaf(context)
        name = self._authenticate(leaf, context)
        check = partial(self._check_certificates, name, leaf)
        line = GrpcLine(name, received, context.cancel, check, self._timeouts)
        reader = Thread(target=line.read, args=(stream, _broken), name=f"read-{name}", daemon=True)
        reader.start()
        context.add_callback(line.outbox.end)
        if not context.add_callback(lambda: self._leave(name)):  # the stream has ended already
            self._leave(name)
        self._arrivals.put(line)
        yield from line.outgoing()

    def _authenticate(self, leaf: x509.Certificate, context: grpc.ServicerContext) -> str:
        """Return the party that connects; a refused peer receives only a ticket number."""
        try:
            name = self._admit(leaf)
        except IdentityError as error:
            ticket = error.ticket
            self._report(error)
            delay_refusal()
            context.abort(grpc.StatusCode.PERMISSION_DENIED, ticket)
        with self._lock:
            reported = self._connected.get(name)
            self._connected[name] = reported is not None
        if reported is not None:
            if not reported:
                self._report(
                    IdentityError(f"{name} opened a second connection", "run one process per party")
                )
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "the party is connected")
        return name

    def _report(self, refused: IdentityError) -> None:
        if self._arrivals.qsize() < MAX_QUEUED_REFUSALS:
            self._arrivals.put(refused)

    def _check_certificates(self, name: str, leaf: x509.Certificate) -> None:
        """Raise ``IdentityError`` if the certificate of one side is no longer valid."""
        _check_end(name, leaf, self._timeouts)
        _check_end(self._keyring.identity.name, self._keyring.identity.certificate, self._timeouts)
        if self._admit(leaf) != name:
            raise IdentityError(f"the certificate of {name} now belongs to another party")

    def _leave(self, name: str) -> None:
        """Allow a party whose stream has ended to connect again."""
        with self._lock:
            self._connected.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None
    ) -> None:
        """Stop listening; streams have 2 s to deliver the frames that were sent."""
        self._server.stop(2.0).wait(5.0)


class _Calls(grpc.GenericRpcHandler):
    """Creates the receive queue of every stream before its first frame arrives."""

    def __init__(
        self,
        serve: Callable[[ReceiveQueue, Iterator[object], grpc.ServicerContext], Iterator[bytes]],
        timeouts: LineTimeouts,
    ) -> None:
        self._serve, self._timeouts = serve, timeouts

    def service(self, call: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        if call.method != _METHOD:
            return None
        received = ReceiveQueue(self._timeouts)
        return grpc.stream_stream_rpc_method_handler(
            partial(self._serve, received), request_deserializer=received.put
        )


def _leaf(context: grpc.ServicerContext) -> x509.Certificate:
    pem: bytes = context.auth_context()["x509_pem_cert"][0]  # type: ignore[assignment]
    return x509.load_pem_x509_certificate(pem)


def _check_end(name: str, certificate: x509.Certificate, timeouts: LineTimeouts) -> None:
    end = certificate.not_valid_after_utc
    if timeouts.now() > end + CLOCK_SKEW:
        raise IdentityError(
            f"the certificate of {name} expired at {end:%Y-%m-%d %H:%M:%S} UTC",
            "renew the certificate and start again",
        )


def _broken(_: grpc.RpcError) -> ProtocolError:
    return LineBroken("closed the connection")


def dial_hub(
    address: str, keyring: Keyring, hub: str, timeouts: LineTimeouts = DEFAULT_TIMEOUTS
) -> GrpcLine:
    """Connect to the hub, whose certificate has the DNS name ``hub``."""
    credentials = grpc.ssl_channel_credentials(
        keyring.authority_pem, keyring.key_pem, keyring.certificate_pem
    )
    channel = grpc.secure_channel(
        address, credentials, [*grpc_options(timeouts), ("grpc.ssl_target_name_override", hub)]
    )

    own, received = keyring.identity, ReceiveQueue(timeouts)
    check = partial(_check_end, own.name, own.certificate, timeouts)
    line = GrpcLine(None, received, channel.close, check, timeouts)
    call: grpc.StreamStreamMultiCallable[bytes, bool] = channel.stream_stream(
        _METHOD, response_deserializer=received.put
    )
    frames = call(line.outgoing())

    def incoming() -> Iterator[object]:
        yield from frames
        line.outbox.end()  # the hub has ended the stream and reads no frame any more

    def read() -> None:
        line.read(incoming(), partial(_explain, address, keyring, hub))
        channel.close()

    Thread(target=read, name="read-hub", daemon=True).start()
    return line


def _explain(address: str, keyring: Keyring, hub: str, error: Any) -> ProtocolError:
    """Return the error of a spoke whose stream to the hub failed."""
    match error.code():
        case grpc.StatusCode.UNAVAILABLE:
            return diagnose_connection(address, keyring, hub)
        case grpc.StatusCode.ALREADY_EXISTS:
            return LineBroken(
                "an earlier connection of this party to the hub is still open",
                "stop any other process of this party",
            )
        case grpc.StatusCode.PERMISSION_DENIED:
            return IdentityError(
                f"the hub refused this party's certificate (ticket {error.details()})",
                "ask the hub's operator for the reason; the hub's log has it under this ticket",
            )
    details = f"{error.code().name.lower()}: {error.details()!r:.100}"
    return LineBroken(f"closed the connection ({details})")
