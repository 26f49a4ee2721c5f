"""Connections of an HTTP server: a limited number, and a limited time for each request."""

import socket
from collections.abc import Iterable
from http.server import ThreadingHTTPServer
from io import RawIOBase
from ipaddress import ip_address
from threading import BoundedSemaphore
from time import monotonic
from typing import Any, Protocol
from urllib.parse import urlsplit

MAX_CONNECTIONS = 128  # that are served at the same time
MAX_REFUSALS = 32  # further connections that get a response with a refusal; others are closed
HTTP_PORT = 80  # of an address without a port


class MakesHandler(Protocol):
    """The class of handlers; making one serves a connection until its end."""

    def __call__(self, request: Any, client_address: Any, server: Any, *, refuses: bool) -> object:
        """Serve a connection; with ``refuses``, only to say that there are too many."""


class LimitedServer(ThreadingHTTPServer):
    """An HTTP server with one thread for each connection, and a limited number of threads."""

    daemon_threads = True
    request_queue_size = (
        128  # connections that wait; with the default of 5 a busy party refuses some
    )

    def __init__(self, address: tuple[str, int], handler: MakesHandler) -> None:
        self._handler = handler
        self._places = BoundedSemaphore(MAX_CONNECTIONS)
        self._threads_left = BoundedSemaphore(MAX_CONNECTIONS + MAX_REFUSALS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)  # type: ignore[arg-type]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread; close it if there are too many threads."""
        if not self._threads_left.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._threads_left.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; this runs in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._threads_left.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Make a handler of a connection, which refuses all requests if there are too many."""
        served = self._places.acquire(blocking=False)
        try:
            self._handler(request, client_address, self, refuses=not served)
        finally:
            if served:
                self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing when a client closes its connection."""


class TimedInput(RawIOBase):
    """What a client sends over a connection, with one deadline for each request."""

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        """Read from ``connection``; a request must arrive within ``seconds`` of its beginning."""
        self._connection, self._seconds = connection, seconds
        self._until: float | None = None  # the deadline; None: the next byte begins a request

    def restart(self) -> None:
        """Expect a new request, which may begin ``seconds`` from now at the latest."""
        self._until = None

    def readable(self) -> bool:
        """Return that this can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes into ``buffer``, and return their number; 0 at the end.

        Raises:
            TimeoutError: the deadline has passed.
        """
        left = self._seconds if self._until is None else self._until - monotonic()
        if left <= 0:
            raise TimeoutError("the request did not arrive in time")
        self._connection.settimeout(left)
        try:
            count = self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(self._seconds)  # for the response
        if self._until is None:
            self._until = monotonic() + self._seconds
        return count


def is_rebound(host: str, connection: socket.socket, own_names: Iterable[str]) -> bool:
    """Whether a browser took this machine for another one that it names, by a changed DNS entry.

    A web page can let its own name point to the loopback address of the visitor's machine. The
    browser then sends this name, with the port of this server, to the loopback address. A reverse
    proxy that passes on its own name has another port; numeric addresses, ``localhost`` and names
    without a dot do not belong to a web page of a stranger.

    Args:
        host: the header ``Host`` of a request.
        connection: the connection of the request.
        own_names: names of this machine.
    """
    address, port = connection.getsockname()[:2]
    try:
        parts = urlsplit(f"//{host}")
        name, named_port = (parts.hostname or "").rstrip("."), parts.port or HTTP_PORT
    except ValueError:
        return True
    own = {each.lower().rstrip(".") for each in own_names}
    if "." not in name or name in own or name.endswith(".localhost") or _is_number(name):
        return False
    return named_port == port and _is_loopback(address)


def _is_number(name: str) -> bool:
    """Whether a host is a numeric address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(address: str) -> bool:
    """Whether an address of a socket is reachable from this machine alone."""
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback
