"""A line over gRPC: one long-lived stream of frames per spoke, always under mutual TLS 1.3."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, Queue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

import grpc
from cryptography import x509

from protocol.credentials import hesitate
from protocol.diagnose import diagnose
from protocol.errors import IdentityError, LineBroken, PeerSilent, ProtocolError
from protocol.frames import MAX_FRAME
from protocol.keyring import Keyring
from protocol.line import Mailbox

_METHOD, _SERVICE = "Talk", "vfl.Line"
_OPTIONS = [
    # Twice the cap: what is a little too large is refused in words by ``frames``, the rest here.
    ("grpc.max_receive_message_length", 2 * MAX_FRAME),
    ("grpc.max_send_message_length", MAX_FRAME),
    ("grpc.max_metadata_size", 8192),
    ("grpc.enable_retries", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.enable_http_proxy", 0),  # a proxy of the environment would stand between the parties
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 15_000),
]


class GrpcLine:
    """One end of a stream; a reader thread fills the inbox, gRPC drains the outbox."""

    def __init__(self, peer: str | None, hang_up: Callable[[], object]) -> None:
        self._peer, self._hang_up = peer, hang_up
        self.inbox, self.outbox = Mailbox(), Mailbox()

    @property
    def peer(self) -> str | None:
        """The party named by the peer's certificate; at a spoke None, see ``join``."""
        return self._peer

    def send(self, frame: bytes, timeout: float) -> None:
        """Queue one frame for the stream."""
        self.outbox.put(frame, timeout)

    def receive(self, timeout: float) -> bytes:
        """Take the next frame that the reader brought."""
        return self.inbox.get(timeout)

    def close(self) -> None:
        """End our direction; at a spoke this ends the stream once the outbox is empty."""
        self.outbox.end()

    def cut(self) -> None:
        """Drop the stream at once."""
        self._hang_up()
        self.outbox.end()
        self.inbox.end()

    def outgoing(self) -> Iterator[bytes]:
        """Frames for gRPC until ``close``."""
        while True:
            try:
                yield self.outbox.get()
            except ProtocolError:
                return

    def read(
        self, frames: Iterator[bytes], explain: Callable[[grpc.RpcError], ProtocolError]
    ) -> None:
        """Move frames into the inbox until the stream ends; runs in a thread of its own."""
        try:
            for frame in frames:
                self.inbox.put(frame)
        except grpc.RpcError as error:
            why = explain(error)
            self.outbox.end(why)  # nobody takes what we say any more
            self.inbox.end(why)
        except ProtocolError:
            return  # we hung up while it was waiting for room
        else:
            self.inbox.end()


class Server:
    """The hub's port: admits spokes by certificate and hands out their lines."""

    def __init__(
        self, address: str, keyring: Keyring, admit: Callable[[x509.Certificate], str], seats: int
    ) -> None:
        """Listen on ``address``; ``admit`` names the party of a leaf or raises ``IdentityError``.

        Raises:
            LineBroken: the address cannot be listened on.
        """
        self._admit = admit
        self._arrivals: Queue[GrpcLine | IdentityError] = Queue()
        self._seated: set[str] = set()
        self._lock = Lock()
        self._server = grpc.server(
            ThreadPoolExecutor(seats + 4, thread_name_prefix="vfl-line"),
            options=_OPTIONS,
            maximum_concurrent_rpcs=seats + 4,
        )
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._talk
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),)
        )
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

    def _talk(self, frames: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        name = self._name(context)
        line = GrpcLine(name, context.cancel)
        reader = Thread(
            target=line.read, args=(frames, _broken), name=f"read-{line.peer}", daemon=True
        )
        reader.start()
        context.add_callback(line.outbox.end)
        if not context.add_callback(lambda: self._leave(name)):  # the stream is over already
            self._leave(name)
        self._arrivals.put(line)
        yield from line.outgoing()

    def _name(self, context: grpc.ServicerContext) -> str:
        pem: bytes = context.auth_context()["x509_pem_cert"][0]  # type: ignore[assignment]
        try:
            name = self._admit(x509.load_pem_x509_certificate(pem))
            with self._lock:
                if name in self._seated:
                    raise IdentityError(f"{name} dials a second time", "one process a seat")
                self._seated.add(name)
        except IdentityError as error:
            ticket = error.ticket  # all that the peer learns; our log tells the reason beside it
            self._arrivals.put(error)
            hesitate()
            context.abort(grpc.StatusCode.PERMISSION_DENIED, ticket)
        return name

    def _leave(self, name: str) -> None:
        """A party whose stream has ended may dial again."""
        with self._lock:
            self._seated.discard(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, *_: TracebackType | BaseException | None
    ) -> None:
        """Stop listening; streams get a moment to deliver what was sent."""
        self._server.stop(2.0).wait()


def _broken(_: grpc.RpcError) -> ProtocolError:
    return LineBroken("closed the connection")


def dial(address: str, keyring: Keyring, hub: str) -> GrpcLine:
    """Dial the hub, known by the DNS name ``hub`` in its certificate."""
    credentials = grpc.ssl_channel_credentials(
        keyring.authority_pem, keyring.key_pem, keyring.certificate_pem
    )
    channel = grpc.secure_channel(
        address, credentials, [*_OPTIONS, ("grpc.ssl_target_name_override", hub)]
    )

    def explain(error: Any) -> ProtocolError:
        match error.code():
            case grpc.StatusCode.UNAVAILABLE:
                return diagnose(address, keyring, hub)
            case grpc.StatusCode.PERMISSION_DENIED:
                return IdentityError(
                    f"the hub refused our certificate (ticket {error.details()})",
                    "its operator finds the reason under this ticket",
                )
        details = f"{error.code().name.lower()}: {error.details()!r:.100}"
        return LineBroken(f"closed the connection ({details})")

    line = GrpcLine(None, channel.close)
    talk: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
        f"/{_SERVICE}/{_METHOD}"
    )
    frames = talk(line.outgoing())

    def incoming() -> Iterator[bytes]:
        yield from frames
        line.outbox.end()  # the hub has ended the stream: nobody takes what we say any more

    def read() -> None:
        line.read(incoming(), explain)
        channel.close()

    Thread(target=read, name="read-hub", daemon=True).start()
    return line
