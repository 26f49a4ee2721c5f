"""The HTTP server of predictions against clients that are slow, many, or web pages."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from parties.data.sources.csv_source import CsvData
from parties.web import connections, prediction_http
from parties.web.connections import is_rebound
from parties.web.prediction_http import serve_http
from parties.web.prediction_service import Latencies

HOST = "127.0.0.1"
HEALTH = b"GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
BODY = b'{"ids":["1"]}'


class Answers:
    """A service that predicts the same for every row."""

    latencies, task, classes = Latencies(), "classification", ("a", "b")
    data = CsvData.model_validate({"kind": "csv", "path": "x.csv", "id": {"columns": ("id",)}})

    def answer(self, ids: Sequence[bytes]) -> tuple[Any, bool]:
        return np.tile([0.25, 0.75], (len(ids), 1)), False

    def health(self) -> dict[str, Any]:
        return {"ready": True}


@pytest.fixture
def door() -> Iterator[int]:
    """The port of a server."""
    with serve_http((HOST, 0), Answers()) as port:  # type: ignore[arg-type]
        yield port


def connect(port: int) -> socket.socket:
    return socket.create_connection((HOST, port), timeout=10)


def reply(connection: socket.socket) -> tuple[int, Any]:
    """Status and content of the response, after which the server closes the connection."""
    found = b""
    while part := connection.recv(65_536):
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def call(port: int, content: bytes) -> tuple[int, Any]:
    with connect(port) as connection:
        connection.sendall(content)
        return reply(connection)


def prediction(*headers: str, body: bytes = BODY) -> bytes:
    lines = ["POST /predict HTTP/1.1", "Host: x", "Connection: close", *headers]
    if not any(each.startswith("Content-Length") for each in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize(
    "start", [b"GET /health HTTP/1.1\r\nX: ", prediction("Content-Length: 100", body=b"")]
)
def test_a_request_that_arrives_byte_by_byte_ends_at_one_deadline(
    monkeypatch: pytest.MonkeyPatch, door: int, start: bytes
) -> None:
    monkeypatch.setattr(prediction_http._Handler, "timeout", 0.8)
    began = monotonic()
    with connect(door) as slow:
        slow.sendall(start)
        slow.settimeout(0.3)  # less than the deadline
        answer = None
        while answer is None and monotonic() - began < 8:
            try:
                slow.sendall(b" ")
                answer = slow.recv(65_536)
            except TimeoutError:
                continue
            except OSError:
                break
    assert monotonic() - began < 4
    assert not answer or b"408" in answer


def test_time_between_two_requests_of_a_connection_is_not_that_of_the_second(
    monkeypatch: pytest.MonkeyPatch, door: int
) -> None:
    monkeypatch.setattr(prediction_http._Handler, "timeout", 1.5)
    with closing(HTTPConnection(HOST, door)) as connection:
        for _ in range(3):
            connection.request("GET", "/health")
            assert json.loads(connection.getresponse().read()) == {"ready": True}
            assert connection.sock is not None  # the connection stays
            sleep(0.8)


def test_many_connections_are_refused_and_then_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(connections, "MAX_REFUSALS", 2)
    monkeypatch.setattr(prediction_http, "REFUSAL_PATIENCE", 30.0)
    before = threading.active_count()
    with serve_http((HOST, 0), Answers()) as port, ExitStack() as stack:  # type: ignore[arg-type]
        idle = [stack.enter_context(connect(port)) for _ in range(3)]
        sleep(0.5)
        status, content = call(port, prediction())
        assert (status, "connections already" in content["error"]) == (503, True)
        assert content["hint"]
        idle += [stack.enter_context(connect(port)) for _ in range(20)]
        sleep(0.5)
        assert threading.active_count() - before <= 1 + 3 + 2  # with the thread that accepts
        for each in idle:
            each.close()
        sleep(0.5)
        assert call(port, prediction())[0] == 200  # every place is free again
        assert [call(port, HEALTH % b"x")[0] for _ in range(8)] == [200] * 8


@pytest.mark.parametrize(
    ("length", "status"),
    [("9" * 5000, 413), ("0" * 5000 + "13", 200), ("1048577", 413), ("²", 411)],
)
def test_length_of_any_form_gets_a_response(door: int, length: str, status: int) -> None:
    head = prediction("Content-Length: @", body=BODY if status == 200 else b"")
    assert call(door, head.replace(b"@", length.encode("latin-1")))[0] == status


@pytest.mark.parametrize("host", ["evil.example:{}", "evil.example.:{}", "127.0.0.1.nip.io:{}"])
def test_page_whose_name_points_to_this_machine_reads_nothing(door: int, host: str) -> None:
    status, content = call(door, HEALTH % host.format(door).encode())
    assert status == 403
    assert "ready" not in content


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:{}", "127.0.0.1", "[::1]:{}", "localhost:{}", "LOCALHOST:{}",
        "door.localhost:{}",
        "vfl:{}",  # a name of a container
        "predict.bank.example", "predict.bank.example:443",  # a reverse proxy passes on its name
        "",
    ],
)  # fmt: skip
def test_names_under_which_clients_reach_the_server_are_accepted(door: int, host: str) -> None:
    assert call(door, HEALTH % host.format(door).encode())[0] == 200


class At:
    """A connection that arrived at an address of this machine."""

    def __init__(self, address: str) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address, 8080


@pytest.mark.parametrize(
    ("address", "host", "refused"),
    [
        ("127.0.0.1", "bank.example:8080", True),
        ("::1", "bank.example:8080", True),
        ("::ffff:127.0.0.1", "bank.example:8080", True),
        ("127.0.0.1", "hub.bank.example:8080", False),  # the name that --http gives
        ("127.0.0.1", "bank.example:none", True),
        ("192.0.2.7", "bank.example:8080", False),  # other machines reach it by a name
        ("172.17.0.2", "bank.example:8080", False),  # a container
    ],
)
def test_names_of_other_machines_are_refused_at_the_loopback_address_alone(
    address: str, host: str, refused: bool
) -> None:
    assert is_rebound(host, At(address), ["Hub.bank.example"]) is refused  # type: ignore[arg-type]
