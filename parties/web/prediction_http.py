"""HTTP server of the prediction service: POST /predict and GET /health, with JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from io import BufferedReader
from socket import gethostname
from threading import Thread
from time import perf_counter
from typing import Any, Protocol

from configs.errors import ConfigError
from configs.targets import Task
from parties.common.errors import DataError, PartyError, StorageError
from parties.data.predictions import Predictions, Probabilities
from parties.data.requested_ids import id_columns, parse_ids
from parties.data.sources.source import DataSettings
from parties.web.connections import MAX_CONNECTIONS, LimitedServer, TimedInput, is_rebound
from parties.web.prediction_service import Latencies, Unavailable

MAX_BODY = 1 << 20  # bytes
# Seconds that a connection may be idle, then that a whole request may take to arrive, and then the
# response to be received.
PATIENCE = 30.0
REFUSAL_PATIENCE = 1.0  # the same for a connection that is refused because too many are open
LOOPBACK = "127.0.0.1"


class AnswersPredictions(Protocol):
    """What the server needs of a prediction service; its methods are called in many threads."""

    latencies: Latencies

    @property
    def task(self) -> Task:
        """Return what the model predicts."""

    @property
    def classes(self) -> Sequence[str]:
        """Return the names of the classes or labels; empty for a number."""

    @property
    def data(self) -> DataSettings:
        """Return the party's data settings, which name the ID columns."""

    def answer(self, ids: Sequence[bytes]) -> tuple[Probabilities, bool]:
        """Return class probabilities, ``[ids, classes]``, and whether a fallback model predicted.

        The probabilities are NaN for rows without a prediction.
        """

    def health(self) -> dict[str, Any]:
        """Return what the service can do now, as JSON."""


class RequestRefused(Exception):
    """The server refuses an HTTP request.

    Attributes:
        status: HTTP status of the response.
        hint: how to fix the request.
    """

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.status, self.hint = status, hint


def parse_serve_address(text: str) -> tuple[str, int]:
    """Return host and port of ``--http``; the default host is the loopback address.

    Raises:
        ConfigError: the text is not an address.
    """
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(
            f"--http {text} is not an address", "give host:port, such as 127.0.0.1:8080"
        )
    return host.strip("[]") or LOOPBACK, int(port)


@contextmanager
def serve_http(address: tuple[str, int], service: AnswersPredictions) -> Iterator[int]:
    """Serve HTTP at ``address`` while the body runs; yield the port.

    Raises:
        StorageError: the server cannot listen at the address.
    """
    try:
        server = _Server(address, service)
    except OSError as error:
        raise StorageError(
            f"cannot listen on {address[0]}:{address[1]}: {error.strerror}",
            "check that the port is free and that this machine has the address",
        ) from error
    thread = Thread(target=server.serve_forever, args=(0.1,), name="http", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(LimitedServer):
    def __init__(self, address: tuple[str, int], service: AnswersPredictions) -> None:
        self.service = service
        self.names = (address[0], gethostname())
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "vfl", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True  # a response is two small writes

    def __init__(self, request: Any, client_address: Any, server: Any, *, refuses: bool) -> None:
        self._refuses, self._patience = refuses, REFUSAL_PATIENCE if refuses else self.timeout
        super().__init__(request, client_address, server)

    def setup(self) -> None:
        """Read the connection with a deadline for each request."""
        super().setup()
        self.rfile.close()  # the connection stays open
        self._input = TimedInput(self.connection, self._patience)
        self.rfile = BufferedReader(self._input)

    def handle_one_request(self) -> None:
        """Read and answer one request."""
        self._input.restart()
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer ``GET /health``."""
        self._guard("/health", self.server.service.health)

    def do_POST(self) -> None:
        """Answer ``POST /predict``."""
        self._guard("/predict", self._predict)

    def log_message(self, *_: Any) -> None:
        """Log nothing, because requests hold IDs."""

    def _guard(self, path: str, answer: Callable[[], dict[str, Any]]) -> None:
        try:
            self._require_client()
            if self.path != path:
                raise RequestRefused(
                    404, "the path or method does not exist", "use POST /predict or GET /health"
                )
            self._respond(200, answer())
        except RequestRefused as error:
            self.close_connection = True  # the rest of its body may be unread
            self._fail(error.status, error)
        except DataError as error:
            self._fail(400, error)
        except Unavailable as error:
            self._fail(503, error, absent=error.absent)
        except PartyError as error:
            self._fail(500, error)

    def _require_client(self) -> None:
        """Refuse requests of web pages, and those beyond the largest number of connections.

        Raises:
            RequestRefused: this request is one of them.
        """
        if self._refuses:
            raise RequestRefused(
                503, f"this server has {MAX_CONNECTIONS} connections already", "try again later"
            )
        if self.headers.get("Origin"):  # a web page in a browser must not read predictions
            raise RequestRefused(
                403, "this server refuses requests from web pages", "send no Origin header"
            )
        if is_rebound(self.headers.get("Host", ""), self.connection, self.server.names):
            raise RequestRefused(
                403,
                "the header Host names another machine, as the request of a web page does",
                "send the address of this server as Host, such as 127.0.0.1",
            )

    def _predict(self) -> dict[str, Any]:
        started, service = perf_counter(), self.server.service
        asked = parse_ids(self._ids(), id_columns(service.data))
        found, fallback = service.answer(asked.ids)
        predicted = Predictions(asked.texts, service.classes, found, service.task).as_json()
        answer: dict[str, Any] = {"predictions": predicted}
        if fallback:
            answer["fallback"] = True
        service.latencies.add(perf_counter() - started, len(asked))
        return answer

    def _ids(self) -> list[str]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            raise RequestRefused(
                411, "the request has no valid Content-Length", "send the length of the body"
            )
        digits = length.lstrip("0")
        if len(digits) > len(str(MAX_BODY)) or int(digits or "0") > MAX_BODY:
            raise RequestRefused(
                413,
                f"the body has more than {MAX_BODY} bytes",
                "split the IDs into several requests",
            )
        content = self._content(int(digits or "0"))
        ids = content.get("ids") if isinstance(content, dict) and len(content) == 1 else None
        if not isinstance(ids, list) or not ids or not all(isinstance(each, str) for each in ids):
            raise RequestRefused(
                400,
                "the body is not a JSON object with a list of IDs",
                'send {"ids": ["...", "..."]}',
            )
        return ids

    def _content(self, length: int) -> Any:
        """Read the body; None if it is no JSON.

        Raises:
            RequestRefused: the body does not arrive in time.
        """
        try:
            return json.loads(self.rfile.read(length))
        except (ValueError, RecursionError):
            return None
        except TimeoutError as error:
            raise RequestRefused(
                408,
                f"the request did not arrive within {self._patience:g} s",
                "send the whole body at once",
            ) from error

    def _fail(self, status: int, error: Exception, **more: Any) -> None:
        self._respond(status, {"error": str(error), "hint": getattr(error, "hint", ""), **more})

    def _respond(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
